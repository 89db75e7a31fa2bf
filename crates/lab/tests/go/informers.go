package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// configMap is a ConfigMap with one entry.
func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"see": "me"}},
		Data:       map[string]string{"key": value},
	}
}

// seen are the events of an informer, one after the other.
type seen struct{ events chan string }

func watchedBy(informer cache.SharedIndexInformer) (seen, error) {
	s := seen{make(chan string, 10_000)}
	name := func(object any) string {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if m, ok := object.(*corev1.ConfigMap); ok {
			return m.Name + "=" + m.Data["key"]
		}
		m, err := metaOf(object)
		if err != nil {
			return err.Error()
		}
		return m.GetName()
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { s.events <- "add " + name(object) },
		UpdateFunc: func(old, object any) {
			// A list after a gap shows unchanged objects again.
			if before, err := metaOf(old); err == nil {
				if after, err := metaOf(object); err == nil && before.GetResourceVersion() == after.GetResourceVersion() {
					return
				}
			}
			s.events <- "update " + name(object)
		},
		DeleteFunc: func(object any) { s.events <- "delete " + name(object) },
	})
	return s, err
}

func metaOf(object any) (metav1.Object, error) {
	m, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", object)
	}
	return m, nil
}

// next waits for the given events, in any order.
func (s seen) next(ctx context.Context, wanted ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var got []string
	for range wanted {
		select {
		case event := <-s.events:
			got = append(got, event)
		case <-ctx.Done():
			return fmt.Errorf("only %v of %v came", got, wanted)
		}
	}
	slices.Sort(got)
	slices.Sort(wanted)
	return truly(slices.Equal(got, wanted), "%v came instead of %v", got, wanted)
}

// factory makes informers of the labelled objects of a namespace.
func factory(client kubernetes.Interface, namespace string) clientinformers.SharedInformerFactory {
	return clientinformers.NewSharedInformerFactoryWithOptions(client, 0, clientinformers.WithNamespace(namespace),
		clientinformers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "see=me" }))
}

func informers(ctx context.Context, w *world) error {
	requests := record(w.config)
	client, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(w.namespace)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := maps.Create(ctx, configMap(name, "1"), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	all := factory(client, w.namespace)
	informer := all.Core().V1().ConfigMaps()
	events, err := watchedBy(informer.Informer())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	all.Start(ctx.Done())
	patch := func(name, body string) error {
		_, err := maps.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	return inOrder([]check{
		{"the cache fills by a streamed list", func() error {
			if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
				return fmt.Errorf("it did not")
			}
			if err := events.next(ctx, "add a=1", "add b=1", "add c=1"); err != nil {
				return err
			}
			if err := truly(requests.streamedLists() >= 1, "no list was streamed"); err != nil {
				return err
			}
			return same("the number of plain lists", requests.plainLists("configmaps"), 0)
		}},
		{"the lister and its index know them", func() error {
			found, err := informer.Lister().ConfigMaps(w.namespace).List(labels.Everything())
			if err != nil {
				return err
			}
			return same("their number", len(found), 3)
		}},
		{"a change is an update", func() error {
			if err := patch("b", `{"data":{"key":"2"}}`); err != nil {
				return err
			}
			return events.next(ctx, "update b=2")
		}},
		{"an object that leaves the selector is deleted, one that comes back is added", func() error {
			if err := patch("b", `{"metadata":{"labels":{"see":"not"}}}`); err != nil {
				return err
			}
			if err := events.next(ctx, "delete b=2"); err != nil {
				return err
			}
			if err := patch("b", `{"metadata":{"labels":{"see":"me"}}}`); err != nil {
				return err
			}
			return events.next(ctx, "add b=2")
		}},
		{"a deletion with a finalizer is an update and then a deletion", func() error {
			if err := patch("a", `{"metadata":{"finalizers":["example.com/hold"]}}`); err != nil {
				return err
			}
			if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
				return err
			}
			if err := patch("a", `{"metadata":{"finalizers":null}}`); err != nil {
				return err
			}
			return events.next(ctx, "update a=1", "update a=1", "delete a=1")
		}},
		{"a burst of writes arrives whole", func() error {
			var wanted []string
			for number := range 200 {
				name := fmt.Sprintf("burst-%d", number)
				if _, err := maps.Create(ctx, configMap(name, "1"), metav1.CreateOptions{}); err != nil {
					return err
				}
				wanted = append(wanted, "add "+name+"=1")
			}
			return events.next(ctx, wanted...)
		}},
		{"the whole collection goes", func() error {
			options := metav1.ListOptions{LabelSelector: "see=me"}
			if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, options); err != nil {
				return err
			}
			return until(ctx, "the cache is empty", func() (bool, error) {
				return len(informer.Informer().GetStore().ListKeys()) == 0, nil
			})
		}},
		{"metadata is enough", func() error { return metadataInformer(ctx, w, client) }},
		{"informers of many kinds start together", func() error { return manyKinds(ctx, client) }},
	})
}

func metadataInformer(ctx context.Context, w *world, client kubernetes.Interface) error {
	partial, err := metadata.NewForConfig(w.config)
	if err != nil {
		return err
	}
	all := metadatainformer.NewFilteredSharedInformerFactory(partial, 0, w.namespace, nil)
	informer := all.ForResource(corev1.SchemeGroupVersion.WithResource("secrets")).Informer()
	events, err := watchedBy(informer)
	if err != nil {
		return err
	}
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "b"}}
	if _, err := client.CoreV1().Secrets(w.namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := events.next(ctx, "add s"); err != nil {
		return err
	}
	stored, _, err := informer.GetStore().GetByKey(w.namespace + "/s")
	if err != nil {
		return err
	}
	_, partialMetadata := stored.(*metav1.PartialObjectMetadata)
	return truly(partialMetadata, "the cache holds a %T", stored)
}

func manyKinds(ctx context.Context, client kubernetes.Interface) error {
	all := clientinformers.NewSharedInformerFactory(client, 0)
	all.Core().V1().Nodes().Informer()
	all.Core().V1().Pods().Informer()
	all.Core().V1().Services().Informer()
	all.Core().V1().Namespaces().Informer()
	all.Core().V1().PersistentVolumes().Informer()
	all.Apps().V1().Deployments().Informer()
	all.Apps().V1().StatefulSets().Informer()
	all.Batch().V1().Jobs().Informer()
	all.Policy().V1().PodDisruptionBudgets().Informer()
	all.Rbac().V1().ClusterRoles().Informer()
	all.Storage().V1().StorageClasses().Informer()
	all.Networking().V1().NetworkPolicies().Informer()
	all.Discovery().V1().EndpointSlices().Informer()
	all.Coordination().V1().Leases().Informer()
	all.Start(ctx.Done())
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for kind, synced := range all.WaitForCacheSync(limited.Done()) {
		if !synced {
			return fmt.Errorf("%v never synced", kind)
		}
	}
	return nil
}

// watcherAndWriter are an informer that loses its server and a client that does not.
type watcherAndWriter struct {
	events   seen
	informer cache.SharedIndexInformer
	writer   kubernetes.Interface
}

func watcherOf(ctx context.Context, w *world, watching *rest.Config) (*watcherAndWriter, error) {
	writer, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(watching)
	if err != nil {
		return nil, err
	}
	all := factory(client, w.namespace)
	informer := all.Core().V1().ConfigMaps().Informer()
	events, err := watchedBy(informer)
	if err != nil {
		return nil, err
	}
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	return &watcherAndWriter{events, informer, writer}, nil
}

// outage cuts an informer from the server while things happen there.
func outage(ctx context.Context, w *world) error {
	watching := rest.CopyConfig(w.config)
	line, err := forward(watching)
	if err != nil {
		return err
	}
	requests := record(watching)
	both, err := watcherOf(ctx, w, watching)
	if err != nil {
		return err
	}
	maps := both.writer.CoreV1().ConfigMaps(w.namespace)
	return inOrder([]check{
		{"the informer watches", func() error {
			for _, name := range []string{"stays", "changes", "goes"} {
				if _, err := maps.Create(ctx, configMap(name, "1"), metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return both.events.next(ctx, "add stays=1", "add changes=1", "add goes=1")
		}},
		{"it learns what happened while it was cut off", func() error {
			watches := requests.count(func(r request) bool { return r.query.Get("watch") != "" })
			address := line.cut()
			if _, err := maps.Update(ctx, configMap("changes", "2"), metav1.UpdateOptions{}); err != nil {
				return err
			}
			if err := maps.Delete(ctx, "goes", metav1.DeleteOptions{}); err != nil {
				return err
			}
			if _, err := maps.Create(ctx, configMap("comes", "1"), metav1.CreateOptions{}); err != nil {
				return err
			}
			time.Sleep(2 * time.Second)
			if err := line.start(address); err != nil {
				return err
			}
			if err := both.events.next(ctx, "update changes=2", "delete goes=1", "add comes=1"); err != nil {
				return err
			}
			again := requests.count(func(r request) bool { return r.query.Get("watch") != "" })
			return truly(again > watches, "it never watched again")
		}},
		{"it goes on", func() error {
			if err := maps.Delete(ctx, "stays", metav1.DeleteOptions{}); err != nil {
				return err
			}
			return both.events.next(ctx, "delete stays=1")
		}},
	})
}

// restart says when the server shall be started anew, and waits for a line that says it was. What the
// informer knows is too old for the server afterwards.
func restart(ctx context.Context, w *world) error {
	requests := record(w.config)
	both, err := watcherOf(ctx, w, w.config)
	if err != nil {
		return err
	}
	maps := both.writer.CoreV1().ConfigMaps(w.namespace)
	return inOrder([]check{
		{"the informer watches", func() error {
			if _, err := maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{}); err != nil {
				return err
			}
			if _, err := maps.Create(ctx, configMap("b", "1"), metav1.CreateOptions{}); err != nil {
				return err
			}
			return both.events.next(ctx, "add a=1", "add b=1")
		}},
		{"something happens that it does not see", func() error {
			// An informer that knows the newest version of all may go on watching from there, and need not list.
			elsewhere := both.writer.CoreV1().Secrets(w.namespace)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unseen"}}
			_, err := elsewhere.Create(ctx, secret, metav1.CreateOptions{})
			return err
		}},
		{"the server is started anew", func() error {
			fmt.Println("RESTART")
			_, err := bufio.NewReader(os.Stdin).ReadString('\n')
			return err
		}},
		{"the informer comes back and misses nothing", func() error {
			if err := until(ctx, "writes are possible", func() (bool, error) {
				_, err := maps.Update(ctx, configMap("a", "2"), metav1.UpdateOptions{})
				return err == nil, err
			}); err != nil {
				return err
			}
			if err := maps.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
				return err
			}
			return both.events.next(ctx, "update a=2", "delete b=1")
		}},
		{"it listed again", func() error {
			return truly(requests.streamedLists() >= 2, "it did not")
		}},
	})
}
