package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Garden is a custom resource with beds.
type Garden struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GardenSpec   `json:"spec,omitempty"`
	Status GardenStatus `json:"status,omitempty"`
}

// GardenSpec is what a garden should be like.
type GardenSpec struct {
	Beds  int    `json:"beds"`
	Owner string `json:"owner,omitempty"`
	// Soil has a default in the definition.
	Soil string `json:"soil,omitempty"`
}

// GardenStatus is what a garden is like.
type GardenStatus struct {
	ReadyBeds          int                `json:"readyBeds"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// GardenList are several gardens.
type GardenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Garden `json:"items"`
}

// DeepCopyObject copies a garden.
func (g *Garden) DeepCopyObject() runtime.Object { return g.copy() }

func (g *Garden) copy() *Garden {
	c := &Garden{TypeMeta: g.TypeMeta, ObjectMeta: *g.ObjectMeta.DeepCopy(), Spec: g.Spec, Status: g.Status}
	c.Status.Conditions = nil
	for _, condition := range g.Status.Conditions {
		c.Status.Conditions = append(c.Status.Conditions, *condition.DeepCopy())
	}
	return c
}

// DeepCopyObject copies a list of gardens.
func (l *GardenList) DeepCopyObject() runtime.Object {
	c := &GardenList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, garden := range l.Items {
		c.Items = append(c.Items, *garden.copy())
	}
	return c
}

// gardens is the version of gardens in a scenario's group.
func (w *world) gardens() schema.GroupVersion {
	return schema.GroupVersion{Group: w.group, Version: "v1"}
}

// object is an empty object of some kind.
func object(apiVersion, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// define creates the definition of gardens and waits until the server serves them.
func define(ctx context.Context, w *world) error {
	client, err := dynamic.NewForConfig(w.config)
	if err != nil {
		return err
	}
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "gardens."+w.group)
	text := func(more map[string]any) map[string]any {
		field := map[string]any{"type": "string"}
		for key, value := range more {
			field[key] = value
		}
		return field
	}
	integer := map[string]any{"type": "integer"}
	condition := map[string]any{
		"type": "object", "required": []any{"type", "status", "lastTransitionTime", "reason", "message"},
		"properties": map[string]any{
			"type": text(nil), "status": text(nil), "reason": text(nil), "message": text(nil),
			"lastTransitionTime": text(map[string]any{"format": "date-time"}),
			"observedGeneration": map[string]any{"type": "integer", "format": "int64"},
		},
	}
	definition.Object["spec"] = map[string]any{
		"group": w.group, "scope": "Namespaced",
		"names": map[string]any{"plural": "gardens", "singular": "garden", "kind": "Garden", "shortNames": []any{"gdn"}},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true,
			"subresources": map[string]any{"status": map[string]any{}, "scale": map[string]any{
				"specReplicasPath": ".spec.beds", "statusReplicasPath": ".status.readyBeds",
			}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object",
				"properties": map[string]any{
					"spec": map[string]any{
						"type": "object", "required": []any{"beds"},
						"properties": map[string]any{
							"beds":  map[string]any{"type": "integer", "minimum": int64(0), "maximum": int64(20)},
							"owner": text(nil), "soil": text(map[string]any{"default": "loam"}),
						},
						"x-kubernetes-validations": []any{map[string]any{
							"rule": "!has(oldSelf.owner) || self.owner == oldSelf.owner", "message": "a garden keeps its owner",
						}},
					},
					"status": map[string]any{"type": "object", "properties": map[string]any{
						"readyBeds": integer, "observedGeneration": map[string]any{"type": "integer", "format": "int64"},
						"conditions": map[string]any{
							"type": "array", "items": condition,
							"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"type"},
						},
					}},
				},
			}},
		}},
	}
	if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return until(ctx, "gardens are served", func() (bool, error) {
		_, err := client.Resource(w.gardens().WithResource("gardens")).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
		return err == nil, err
	})
}
