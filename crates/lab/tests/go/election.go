package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidate is somebody who wants to lead.
type candidate struct {
	name    string
	leading chan bool
	stop    context.CancelFunc
	ended   chan struct{}
}

// run makes somebody a candidate for the lease `leader`.
func run(ctx context.Context, client kubernetes.Interface, namespace, name string, release bool) (*candidate, error) {
	ctx, stop := context.WithCancel(ctx)
	c := &candidate{name, make(chan bool, 16), stop, make(chan struct{})}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "leader"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: 5 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 500 * time.Millisecond,
		ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { c.leading <- true },
			OnStoppedLeading: func() { c.leading <- false },
		},
	})
	if err != nil {
		stop()
		return nil, err
	}
	go func() {
		elector.Run(ctx)
		close(c.ended)
	}()
	return c, nil
}

// leads waits until the candidate leads.
func (c *candidate) leads() error {
	select {
	case leading := <-c.leading:
		return truly(leading, "%s stopped to lead", c.name)
	case <-time.After(patience):
		return fmt.Errorf("%s never leads", c.name)
	}
}

// election has candidates follow each other.
func election(ctx context.Context, w *world) error {
	client, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return err
	}
	var one, two, three *candidate
	holder := func(name string, changes int32) error {
		lease, err := client.CoordinationV1().Leases(w.namespace).Get(ctx, "leader", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || lease.Spec.LeaseTransitions == nil || lease.Spec.RenewTime == nil {
			return fmt.Errorf("the lease is not filled in: %+v", lease.Spec)
		}
		if err := same("the holder", *lease.Spec.HolderIdentity, name); err != nil {
			return err
		}
		return same("the number of changes", *lease.Spec.LeaseTransitions, changes)
	}
	return inOrder([]check{
		{"the first candidate leads", func() error {
			if one, err = run(ctx, client, w.namespace, "one", true); err != nil {
				return err
			}
			if err := one.leads(); err != nil {
				return err
			}
			return holder("one", 0)
		}},
		{"a second one waits", func() error {
			if two, err = run(ctx, client, w.namespace, "two", false); err != nil {
				return err
			}
			select {
			case <-two.leading:
				return fmt.Errorf("it leads as well")
			case <-time.After(2 * time.Second):
				return holder("one", 0)
			}
		}},
		{"it follows when the first one steps down", func() error {
			one.stop()
			<-one.ended
			if err := two.leads(); err != nil {
				return err
			}
			return until(ctx, "the lease is the second one's", func() (bool, error) {
				err := holder("two", 1)
				return err == nil, err
			})
		}},
		{"a third one follows when the second one is silent", func() error {
			two.stop()
			<-two.ended
			if three, err = run(ctx, client, w.namespace, "three", true); err != nil {
				return err
			}
			if err := three.leads(); err != nil {
				return err
			}
			defer func() {
				three.stop()
				<-three.ended
			}()
			return holder("three", 2)
		}},
	})
}
