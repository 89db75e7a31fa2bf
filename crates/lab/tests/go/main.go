// Client-go and controller-runtime against a server: go-clients KUBECONFIG NAMESPACE GROUP SCENARIO
//
// Each scenario has a namespace and an API group of its own. It prints one line per check and ends with
// the first that fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is how long something that has to happen may take.
const patience = time.Minute

// world is what a scenario gets.
type world struct {
	config    *rest.Config
	namespace string
	group     string
}

// scenarios are all scenarios by name.
var scenarios = map[string]func(context.Context, *world) error{
	"informers":  informers,
	"outage":     outage,
	"restart":    restart,
	"election":   election,
	"manager":    reconciles,
	"webhooks":   webhooks,
	"dynamic":    dynamics,
	"discovery":  discovers,
	"protobuf":   protobufs,
	"apply":      applies,
	"retrywatch": retryWatch,
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintf(os.Stderr, "usage: %s KUBECONFIG NAMESPACE GROUP SCENARIO\nscenarios: %s\n", os.Args[0],
			strings.Join(slices.Sorted(maps.Keys(scenarios)), " "))
		os.Exit(2)
	}
	log.SetLogger(logr.Discard())
	klog.LogToStderr(true)
	scenario, known := scenarios[os.Args[4]]
	if !known {
		fmt.Fprintf(os.Stderr, "there is no scenario %q\n", os.Args[4])
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// The client's own brake would only make the scenarios slower.
	config.QPS, config.Burst = -1, -1
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := scenario(ctx, &world{config: config, namespace: os.Args[2], group: os.Args[3]}); err != nil {
		fmt.Printf("FAILED %v\n", err)
		os.Exit(1)
	}
}

// step runs one check and prints how it went.
func step(what string, run func() error) error {
	if err := run(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Printf("ok     %s\n", what)
	return nil
}

// check is a step of a scenario that has a name.
type check struct {
	what string
	run  func() error
}

// inOrder runs checks until one fails.
func inOrder(checks []check) error {
	for _, next := range checks {
		if err := step(next.what, next.run); err != nil {
			return err
		}
	}
	return nil
}

// until asks again until something holds.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		done, err := holds()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("still not so: %s", what), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// same complains when two things differ.
func same[T comparable](what string, seen, wanted T) error {
	if seen != wanted {
		return fmt.Errorf("%s is %v and should be %v", what, seen, wanted)
	}
	return nil
}

// truly complains when something does not hold.
func truly(holds bool, complaint string, arguments ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(complaint, arguments...)
}
