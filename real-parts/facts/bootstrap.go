package main

import (
	"bufio"
	"encoding/json"
	"maps"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	flowcontrol "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	scheduling "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// printRBAC writes the roles and bindings of a new server.
func printRBAC(out *bufio.Writer) error {
	objects := []any{}
	version := rbacv1.SchemeGroupVersion.String()
	for _, object := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		object.TypeMeta = metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}
		objects = append(objects, object)
	}
	for _, object := range slices.Concat(
		bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings(),
	) {
		object.TypeMeta = metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}
		objects = append(objects, object)
	}
	roles := bootstrappolicy.NamespaceRoles()
	for _, namespace := range slices.Sorted(maps.Keys(roles)) {
		for _, object := range roles[namespace] {
			object.TypeMeta = metav1.TypeMeta{APIVersion: version, Kind: "Role"}
			objects = append(objects, object)
		}
	}
	bindings := bootstrappolicy.NamespaceRoleBindings()
	for _, namespace := range slices.Sorted(maps.Keys(bindings)) {
		for _, object := range bindings[namespace] {
			object.TypeMeta = metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"}
			objects = append(objects, object)
		}
	}
	return printObjects(out, objects)
}

// printBootstrap writes the priority levels, flow schemas and priority classes of a new server.
func printBootstrap(out *bufio.Writer) error {
	objects := []any{}
	for _, object := range slices.Concat(
		flowcontrol.MandatoryPriorityLevelConfigurations, flowcontrol.SuggestedPriorityLevelConfigurations,
	) {
		object.TypeMeta = metav1.TypeMeta{
			APIVersion: flowcontrolv1.SchemeGroupVersion.String(), Kind: "PriorityLevelConfiguration",
		}
		objects = append(objects, object)
	}
	for _, object := range slices.Concat(flowcontrol.MandatoryFlowSchemas, flowcontrol.SuggestedFlowSchemas) {
		object.TypeMeta = metav1.TypeMeta{
			APIVersion: flowcontrolv1.SchemeGroupVersion.String(), Kind: "FlowSchema",
		}
		objects = append(objects, object)
	}
	for _, object := range scheduling.SystemPriorityClasses() {
		object.TypeMeta = metav1.TypeMeta{
			APIVersion: schedulingv1.SchemeGroupVersion.String(), Kind: "PriorityClass",
		}
		objects = append(objects, object)
	}
	return printObjects(out, objects)
}

// printObjects writes a JSON list with one object per line, for the sake of comparisons.
func printObjects(out *bufio.Writer, objects []any) error {
	for index, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		start := ",\n"
		if index == 0 {
			start = "[\n"
		}
		if _, err := out.WriteString(start + string(text)); err != nil {
			return err
		}
	}
	_, err := out.WriteString("\n]\n")
	return err
}
