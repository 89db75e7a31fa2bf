package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	finalizer = "example.com/compost"
	manager   = "gardener"
)

// gardener keeps one bed, a ConfigMap, for each bed a garden should have.
type gardener struct {
	client.Client
	version   schema.GroupVersion
	events    events.EventRecorder
	composted atomic.Int32
	rounds    atomic.Int32
}

func bedName(garden string, number int) string { return fmt.Sprintf("%s-bed-%d", garden, number) }

// Reconcile brings one garden closer to what it should be.
func (g *gardener) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	g.rounds.Add(1)
	garden := &Garden{}
	if err := g.Get(ctx, request.NamespacedName, garden); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !garden.DeletionTimestamp.IsZero() {
		before := garden.copy()
		if controllerutil.RemoveFinalizer(garden, finalizer) {
			g.composted.Add(1)
			return ctrl.Result{}, client.IgnoreNotFound(g.Patch(ctx, garden, client.MergeFrom(before)))
		}
		return ctrl.Result{}, nil
	}
	before := garden.copy()
	if controllerutil.AddFinalizer(garden, finalizer) {
		if err := g.Patch(ctx, garden, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, err
		}
	}
	for number := range garden.Spec.Beds {
		owner := applymeta.OwnerReference().
			WithAPIVersion(g.version.String()).WithKind("Garden").WithName(garden.Name).WithUID(garden.UID).
			WithController(true).WithBlockOwnerDeletion(true)
		bed := applycore.ConfigMap(bedName(garden.Name, number), garden.Namespace).
			WithLabels(map[string]string{"garden": garden.Name}).WithOwnerReferences(owner).
			WithData(map[string]string{"soil": garden.Spec.Soil})
		if err := g.Apply(ctx, bed, client.FieldOwner(manager), client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	var beds corev1.ConfigMapList
	if err := g.List(ctx, &beds, client.InNamespace(garden.Namespace), client.MatchingLabels{"garden": garden.Name}); err != nil {
		return ctrl.Result{}, err
	}
	for _, bed := range beds.Items {
		var number int
		if _, err := fmt.Sscanf(bed.Name[len(garden.Name):], "-bed-%d", &number); err == nil && number >= garden.Spec.Beds {
			if err := g.Delete(ctx, &bed); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
	}
	before = garden.copy()
	garden.Status.ReadyBeds = garden.Spec.Beds
	garden.Status.ObservedGeneration = garden.Generation
	changed := meta.SetStatusCondition(&garden.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Planted", Message: "all beds are there",
		ObservedGeneration: garden.Generation,
	})
	if !changed {
		return ctrl.Result{}, nil
	}
	g.events.Eventf(garden, nil, corev1.EventTypeNormal, "Planted", "Plant", "%d beds", garden.Spec.Beds)
	return ctrl.Result{}, g.Status().Patch(ctx, garden, client.MergeFrom(before))
}

// schemeOf knows the built-in kinds and a scenario's gardens.
func schemeOf(w *world) (*runtime.Scheme, error) {
	all := runtime.NewScheme()
	if err := scheme.AddToScheme(all); err != nil {
		return nil, err
	}
	all.AddKnownTypes(w.gardens(), &Garden{}, &GardenList{})
	metav1.AddToGroupVersion(all, w.gardens())
	return all, nil
}

// managerOf makes a manager of a scenario's namespace.
func managerOf(w *world, hooks webhook.Server) (ctrl.Manager, error) {
	all, err := schemeOf(w)
	if err != nil {
		return nil, err
	}
	anyName := true
	return ctrl.NewManager(w.config, ctrl.Options{
		Scheme:                        all,
		Metrics:                       server.Options{BindAddress: "0"},
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		LeaderElection:                true,
		LeaderElectionID:              "gardener",
		LeaderElectionNamespace:       w.namespace,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    config.Controller{SkipNameValidation: &anyName},
		WebhookServer:                 hooks,
	})
}

// start runs a manager; what it returns ends it and says how it went.
func start(ctx context.Context, m ctrl.Manager) func() error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	return func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return fmt.Errorf("the manager does not end")
		}
	}
}

// reconciles has a manager keep gardens.
func reconciles(ctx context.Context, w *world) error {
	if err := define(ctx, w); err != nil {
		return err
	}
	m, err := managerOf(w, nil)
	if err != nil {
		return err
	}
	keeper := &gardener{Client: m.GetClient(), version: w.gardens(), events: m.GetEventRecorder(manager)}
	// Gardens are told by a label of the accounts that belong to them; only metadata is needed for that.
	err = ctrl.NewControllerManagedBy(m).
		For(&Garden{}).
		Owns(&corev1.ConfigMap{}).
		WatchesMetadata(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(
			func(_ context.Context, account client.Object) []ctrl.Request {
				name := account.GetLabels()["garden"]
				if name == "" {
					return nil
				}
				return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: account.GetNamespace(), Name: name}}}
			}), builder.OnlyMetadata).
		Complete(keeper)
	if err != nil {
		return err
	}
	stop := start(ctx, m)
	all, err := schemeOf(w)
	if err != nil {
		return err
	}
	direct, err := client.New(w.config, client.Options{Scheme: all})
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: w.namespace, Name: "g"}
	ready := func(beds int) error {
		return until(ctx, "the garden is ready", func() (bool, error) {
			var garden Garden
			if err := direct.Get(ctx, key, &garden); err != nil {
				return false, err
			}
			status := garden.Status
			return status.ReadyBeds == beds && status.ObservedGeneration == garden.Generation &&
				meta.IsStatusConditionTrue(status.Conditions, "Ready"), nil
		})
	}
	bed := func(number int) (*corev1.ConfigMap, error) {
		var found corev1.ConfigMap
		err := direct.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: bedName("g", number)}, &found)
		return &found, err
	}
	checks := []check{
		{"a garden gets its beds, its status and its finalizer", func() error {
			garden := &Garden{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "g"}, Spec: GardenSpec{Beds: 3}}
			if err := direct.Create(ctx, garden); err != nil {
				return err
			}
			if err := ready(3); err != nil {
				return err
			}
			if err := direct.Get(ctx, key, garden); err != nil {
				return err
			}
			if !controllerutil.ContainsFinalizer(garden, finalizer) {
				return fmt.Errorf("it has no finalizer")
			}
			found, err := bed(2)
			if err != nil {
				return err
			}
			return truly(metav1.IsControlledBy(found, garden) && found.Data["soil"] == "loam", "the bed is %+v", found)
		}},
		{"a spoiled bed is mended by apply, and others' fields stay", func() error {
			found, err := bed(0)
			if err != nil {
				return err
			}
			before := found.DeepCopy()
			found.Data["soil"], found.Data["note"] = "sand", "dry"
			if err := direct.Patch(ctx, found, client.MergeFrom(before), client.FieldOwner("mole")); err != nil {
				return err
			}
			return until(ctx, "the soil is back", func() (bool, error) {
				found, err := bed(0)
				return err == nil && found.Data["soil"] == "loam" && found.Data["note"] == "dry", err
			})
		}},
		{"a lost bed comes back", func() error {
			found, err := bed(1)
			if err != nil {
				return err
			}
			if err := direct.Delete(ctx, found); err != nil {
				return err
			}
			return until(ctx, "the bed is back", func() (bool, error) {
				again, err := bed(1)
				return err == nil && again.UID != found.UID, client.IgnoreNotFound(err)
			})
		}},
		{"scaling is followed", func() error {
			garden := &Garden{}
			if err := direct.Get(ctx, key, garden); err != nil {
				return err
			}
			before := garden.copy()
			garden.Spec.Beds = 1
			if err := direct.Patch(ctx, garden, client.MergeFrom(before)); err != nil {
				return err
			}
			if err := ready(1); err != nil {
				return err
			}
			return until(ctx, "the last bed is gone", func() (bool, error) {
				_, err := bed(2)
				return apierrors.IsNotFound(err), nil
			})
		}},
		{"a change of another object's metadata is noticed", func() error {
			rounds := keeper.rounds.Load()
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
				Namespace: w.namespace, Name: "helper", Labels: map[string]string{"garden": "g"},
			}}
			if err := direct.Create(ctx, account); err != nil {
				return err
			}
			return until(ctx, "there was another round", func() (bool, error) { return keeper.rounds.Load() > rounds, nil })
		}},
		{"events are recorded", func() error {
			return until(ctx, "there is an event", func() (bool, error) {
				var found eventsv1.EventList
				if err := direct.List(ctx, &found, client.InNamespace(w.namespace)); err != nil {
					return false, err
				}
				for _, event := range found.Items {
					if event.Reason == "Planted" && event.Regarding.Name == "g" && event.ReportingController == manager {
						return true, nil
					}
				}
				return false, nil
			})
		}},
		{"the garden goes with its finalizer, and its beds with it", func() error {
			garden := &Garden{}
			if err := direct.Get(ctx, key, garden); err != nil {
				return err
			}
			if err := direct.Delete(ctx, garden, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
				return err
			}
			if err := until(ctx, "garden and bed are gone", func() (bool, error) {
				_, noBed := bed(0)
				return apierrors.IsNotFound(direct.Get(ctx, key, garden)) && apierrors.IsNotFound(noBed), nil
			}); err != nil {
				return err
			}
			return truly(keeper.composted.Load() > 0, "the finalizer was not served")
		}},
	}
	if err := inOrder(checks); err != nil {
		return err
	}
	return step("the manager ends", stop)
}
