package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/runtime"
)

// dynamics uses objects whose types are known to the server alone.
func dynamics(ctx context.Context, w *world) error {
	if err := define(ctx, w); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(w.config)
	if err != nil {
		return err
	}
	gardens := client.Resource(w.gardens().WithResource("gardens")).Namespace(w.namespace)
	garden := func(name string, beds int64) *unstructured.Unstructured {
		o := object(w.gardens().String(), "Garden", name)
		o.Object["spec"] = map[string]any{"beds": beds}
		return o
	}
	all := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, w.namespace, nil)
	informer := all.ForResource(w.gardens().WithResource("gardens")).Informer()
	events, err := watchedBy(informer)
	if err != nil {
		return err
	}
	return inOrder([]check{
		{"a custom object is created with its defaults", func() error {
			made, err := gardens.Create(ctx, garden("g", 2), metav1.CreateOptions{FieldValidation: "Strict"})
			if err != nil {
				return err
			}
			soil, _, err := unstructured.NestedString(made.Object, "spec", "soil")
			if err != nil {
				return err
			}
			return same("the soil", soil, "loam")
		}},
		{"an informer sees custom objects come and go", func() error {
			all.Start(ctx.Done())
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				return fmt.Errorf("it never synced")
			}
			if _, err := gardens.Create(ctx, garden("h", 1), metav1.CreateOptions{}); err != nil {
				return err
			}
			if err := gardens.Delete(ctx, "h", metav1.DeleteOptions{}); err != nil {
				return err
			}
			return events.next(ctx, "add g", "add h", "delete h")
		}},
		{"an invalid one is refused with its causes", func() error {
			_, err := gardens.Create(ctx, garden("too-big", 21), metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) {
				return fmt.Errorf("it was answered with %v", err)
			}
			status := apierrors.APIStatus(nil)
			if typed, ok := err.(apierrors.APIStatus); ok {
				status = typed
			}
			if status == nil || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
				return fmt.Errorf("there are no causes in %v", err)
			}
			return same("the field", status.Status().Details.Causes[0].Field, "spec.beds")
		}},
		{"an unknown field is refused where that is wanted", func() error {
			wrong := garden("wrong", 1)
			wrong.Object["colour"] = "red"
			_, err := gardens.Create(ctx, wrong, metav1.CreateOptions{FieldValidation: "Strict"})
			return truly(apierrors.IsBadRequest(err) && strings.Contains(err.Error(), `unknown field "colour"`), "it was answered with %v", err)
		}},
		{"status and scale are subresources", func() error {
			patch := []byte(`{"status":{"readyBeds":2},"spec":{"beds":7}}`)
			patched, err := gardens.Patch(ctx, "g", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			if err != nil {
				return err
			}
			if beds, _, _ := unstructured.NestedInt64(patched.Object, "spec", "beds"); beds != 2 {
				return fmt.Errorf("the status changed the beds to %d", beds)
			}
			scale, err := gardens.Get(ctx, "g", metav1.GetOptions{}, "scale")
			if err != nil {
				return err
			}
			ready, _, _ := unstructured.NestedInt64(scale.Object, "status", "replicas")
			return same("the scale's replicas", ready, 2)
		}},
		{"apply owns fields, and conflicts", func() error {
			mine := garden("applied", 3)
			if _, err := gardens.Apply(ctx, "applied", mine, metav1.ApplyOptions{FieldManager: "one"}); err != nil {
				return err
			}
			other := garden("applied", 4)
			_, err := gardens.Apply(ctx, "applied", other, metav1.ApplyOptions{FieldManager: "two"})
			if !apierrors.IsConflict(err) {
				return fmt.Errorf("there is no conflict but %v", err)
			}
			_, err = gardens.Apply(ctx, "applied", other, metav1.ApplyOptions{FieldManager: "two", Force: true})
			return err
		}},
		{"pages hang together", func() error {
			for number := range 25 {
				if _, err := gardens.Create(ctx, garden(fmt.Sprintf("p%02d", number), 1), metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			lists := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return gardens.List(ctx, options)
			})
			lists.PageSize = 4
			found := 0
			err := lists.EachListItem(ctx, metav1.ListOptions{}, func(runtime.Object) error {
				found++
				return nil
			})
			if err != nil {
				return err
			}
			return same("the number of objects", found, 27)
		}},
	})
}

// discovers finds out what the server has.
func discovers(ctx context.Context, w *world) error {
	if err := define(ctx, w); err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(w.config)
	if err != nil {
		return err
	}
	return inOrder([]check{
		{"the version is told", func() error {
			version, err := client.ServerVersion()
			if err != nil {
				return err
			}
			return same("the minor version", version.Minor, "37")
		}},
		{"groups and resources are told, aggregated and one by one", func() error {
			_, together, err := client.ServerGroupsAndResources()
			if err != nil {
				return err
			}
			old := discovery.NewDiscoveryClient(client.RESTClient())
			old.UseLegacyDiscovery = true
			resources := func(lists []*metav1.APIResourceList) map[string]string {
				found := map[string]string{}
				for _, list := range lists {
					// Other scenarios' groups come and go meanwhile.
					if strings.Contains(list.GroupVersion, "example.com") && !strings.HasPrefix(list.GroupVersion, w.group) {
						continue
					}
					for _, one := range list.APIResources {
						found[list.GroupVersion+" "+one.Name] = fmt.Sprintf("%s %v %v %v %v", one.Kind, one.Namespaced, one.Verbs, one.ShortNames, one.Categories)
					}
				}
				return found
			}
			return until(ctx, "both tell the same", func() (bool, error) {
				_, apart, err := old.ServerGroupsAndResources()
				if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
					return false, err
				}
				one, other := resources(together), resources(apart)
				for name, about := range one {
					if other[name] != about {
						return false, fmt.Errorf("%s is %q and %q", name, about, other[name])
					}
				}
				return len(one) == len(other) && len(one) > 100, fmt.Errorf("there are %d and %d", len(one), len(other))
			})
		}},
		{"kinds are mapped to resources", func() error {
			mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
			for kind, wanted := range map[schema.GroupKind]string{
				{Group: "", Kind: "Endpoints"}:                                             "endpoints",
				{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                        "networkpolicies",
				{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                  "clusterroles",
				{Group: w.group, Kind: "Garden"}:                                           "gardens",
				{Group: "apiregistration.k8s.io", Kind: "APIService"}:                      "apiservices",
				{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}:                   "volumeattributesclasses",
				{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:                    "horizontalpodautoscalers",
				{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}: "validatingadmissionpolicies",
			} {
				mapping, err := mapper.RESTMapping(kind)
				if err != nil {
					return err
				}
				if err := same("the resource", mapping.Resource.Resource, wanted); err != nil {
					return err
				}
			}
			short := restmapper.NewShortcutExpander(mapper, client, nil)
			resource, err := short.ResourceFor(schema.GroupVersionResource{Resource: "gdn"})
			if err != nil {
				return err
			}
			return same("what the short name means", resource.Resource, "gardens")
		}},
		{"the preferred versions are told", func() error {
			lists, err := discovery.ServerPreferredResources(client)
			if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
				return err
			}
			for _, list := range lists {
				if list.GroupVersion == "autoscaling/v2" {
					return nil
				}
			}
			return fmt.Errorf("autoscaling/v2 is not among them")
		}},
		{"OpenAPI documents are served", func() error {
			document, err := client.OpenAPISchema()
			if err != nil {
				return err
			}
			if found := len(document.GetDefinitions().GetAdditionalProperties()); found < 500 {
				return fmt.Errorf("there are only %d definitions", found)
			}
			paths, err := client.OpenAPIV3().Paths()
			if err != nil {
				return err
			}
			body, err := paths["apis/apps/v1"].Schema("application/json")
			if err != nil {
				return err
			}
			return truly(strings.Contains(string(body), "io.k8s.api.apps.v1.DeploymentSpec"), "apps/v1 has no DeploymentSpec")
		}},
	})
}

// protobufs speaks protobuf for what is built in.
func protobufs(ctx context.Context, w *world) error {
	binary := rest.CopyConfig(w.config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	requests := record(binary)
	typed, err := ctrlclient.New(binary, ctrlclient.Options{})
	if err != nil {
		return err
	}
	text, err := ctrlclient.New(w.config, ctrlclient.Options{})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return err
	}
	err = inOrder([]check{
		{"what is written as protobuf reads the same in both forms", func() error {
			for _, wanted := range builtIn(w.namespace) {
				key := ctrlclient.ObjectKeyFromObject(wanted)
				if err := typed.Create(ctx, wanted); err != nil {
					return fmt.Errorf("%T: %w", wanted, err)
				}
				var one, other ctrlclient.Object
				// A controller may write its status between the two reads: they compare at one version only.
				err := until(ctx, "both forms are read at one version", func() (bool, error) {
					one = wanted.DeepCopyObject().(ctrlclient.Object)
					other = wanted.DeepCopyObject().(ctrlclient.Object)
					if err := typed.Get(ctx, key, one); err != nil {
						return false, err
					}
					if err := text.Get(ctx, key, other); err != nil {
						return false, err
					}
					return one.GetResourceVersion() == other.GetResourceVersion(), fmt.Errorf("%T keeps changing", wanted)
				})
				if err != nil {
					return err
				}
				if !equality.Semantic.DeepEqual(one, other) {
					return fmt.Errorf("%T differs:\n%+v\n%+v", wanted, one, other)
				}
			}
			return nil
		}},
		{"lists, updates and status as protobuf", func() error {
			deployments := client.AppsV1().Deployments(w.namespace)
			list, err := deployments.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			if err := same("the number of deployments", len(list.Items), 1); err != nil {
				return err
			}
			// A controller may write the status in between.
			var updated *appsv1.Deployment
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				if updated, err = deployments.Get(ctx, list.Items[0].Name, metav1.GetOptions{}); err != nil {
					return err
				}
				updated.Spec.Template.Spec.Containers[0].Image = "example.com/image:2"
				if updated, err = deployments.Update(ctx, updated, metav1.UpdateOptions{}); err != nil {
					return err
				}
				updated.Status.ObservedGeneration = updated.Generation
				if updated, err = deployments.UpdateStatus(ctx, updated, metav1.UpdateOptions{}); err != nil {
					return err
				}
				return same("the generation", updated.Status.ObservedGeneration, int64(2))
			})
		}},
		{"a failure as protobuf", func() error {
			_, err := client.CoreV1().Secrets(w.namespace).Get(ctx, "ghost", metav1.GetOptions{})
			return truly(apierrors.IsNotFound(err) && err.Error() == `secrets "ghost" not found`, "it was %v", err)
		}},
		{"a watch as protobuf", func() error {
			watching, err := client.CoreV1().Services(w.namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return err
			}
			defer watching.Stop()
			event := <-watching.ResultChan()
			service, ok := event.Object.(*corev1.Service)
			return truly(ok && event.Type == watch.Added && service.Spec.ClusterIP != "", "the event was %v", event)
		}},
		{"deletion as protobuf", func() error {
			policy := metav1.DeletePropagationForeground
			return client.AppsV1().Deployments(w.namespace).Delete(ctx, "d", metav1.DeleteOptions{PropagationPolicy: &policy})
		}},
	})
	if err != nil {
		return err
	}
	return step("the answers were protobuf", func() error {
		other := requests.count(func(r request) bool {
			discovery := r.path == "/api" || r.path == "/apis"
			return !discovery && !strings.HasPrefix(r.contentType, "application/vnd.kubernetes.protobuf")
		})
		return same("the number of others", other, 0)
	})
}

// builtIn are objects of many kinds, with fields of many types.
func builtIn(namespace string) []ctrlclient.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"a": "b"}}
	}
	two, yes := int32(2), true
	half := intstr.FromString("50%")
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "d"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/image:1", Command: []string{"run"},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env: []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
				}}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1.5Gi")},
				},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")},
				}},
			}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
					ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}},
				}}},
			}}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	return []ctrlclient.Object{
		&corev1.ConfigMap{ObjectMeta: meta("c"), Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0, 1, 255}}},
		&corev1.Secret{ObjectMeta: meta("s"), Data: map[string][]byte{"b": {1, 2, 3}}, Immutable: &yes},
		&corev1.Service{ObjectMeta: meta("svc"), Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "d"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}},
		}},
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("claim"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("10Gi")}},
		}},
		&appsv1.Deployment{ObjectMeta: meta("d"), Spec: appsv1.DeploymentSpec{
			Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}}, Template: template,
		}},
		&batchv1.CronJob{ObjectMeta: meta("cron"), Spec: batchv1.CronJobSpec{
			Schedule: "*/5 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}}},
		}},
		&policyv1.PodDisruptionBudget{ObjectMeta: meta("pdb"), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &half, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}},
		}},
		&rbacv1.Role{ObjectMeta: meta("role"), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}, ResourceNames: []string{"p"},
		}}},
		&networkingv1.NetworkPolicy{ObjectMeta: meta("np"), Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{"Ingress"},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
				IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}},
			}}}},
		}},
	}
}

// applies uses typed apply configurations, and takes its own fields out of an object.
func applies(ctx context.Context, w *world) error {
	client, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(w.namespace)
	options := metav1.ApplyOptions{FieldManager: "one"}
	return inOrder([]check{
		{"an object is applied", func() error {
			wanted := applycore.ConfigMap("a", w.namespace).WithData(map[string]string{"x": "1", "y": "1"})
			_, err := maps.Apply(ctx, wanted, options)
			return err
		}},
		{"the manager's own part is extracted", func() error {
			stored, err := maps.Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return err
			}
			mine, err := applycore.ExtractConfigMap(stored, "one")
			if err != nil {
				return err
			}
			return same("the number of its entries", len(mine.Data), 2)
		}},
		{"what is no longer applied is gone", func() error {
			stored, err := maps.Apply(ctx, applycore.ConfigMap("a", w.namespace).WithData(map[string]string{"x": "2"}), options)
			if err != nil {
				return err
			}
			return truly(len(stored.Data) == 1 && stored.Data["x"] == "2", "it is %v", stored.Data)
		}},
		{"another manager conflicts until it forces", func() error {
			wanted := applycore.ConfigMap("a", w.namespace).WithData(map[string]string{"x": "3"})
			other := metav1.ApplyOptions{FieldManager: "two"}
			if _, err := maps.Apply(ctx, wanted, other); !apierrors.IsConflict(err) {
				return fmt.Errorf("there is no conflict but %v", err)
			}
			other.Force = true
			_, err := maps.Apply(ctx, wanted, other)
			return err
		}},
	})
}

// retryWatch goes on watching over ends of watches.
func retryWatch(ctx context.Context, w *world) error {
	client, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(w.namespace)
	begin, err := maps.Create(ctx, configMap("a", "0"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	watching, err := watchtools.NewRetryWatcherWithContext(ctx, begin.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			second := int64(1)
			options.FieldSelector, options.TimeoutSeconds = "metadata.name=a", &second
			return maps.Watch(ctx, options)
		},
	})
	if err != nil {
		return err
	}
	defer watching.Stop()
	return step("no event is lost or seen twice between watches", func() error {
		for number := 1; number <= 8; number++ {
			value := fmt.Sprint(number)
			if _, err := maps.Update(ctx, configMap("a", value), metav1.UpdateOptions{}); err != nil {
				return err
			}
			event := <-watching.ResultChan()
			changed, ok := event.Object.(*corev1.ConfigMap)
			if !ok || changed.Data["key"] != value {
				return fmt.Errorf("round %d saw %v", number, event)
			}
			if err := sleep(ctx, 400); err != nil {
				return err
			}
		}
		return nil
	})
}
