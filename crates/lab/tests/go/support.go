package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// warnings are what the server warned of.
type warnings struct {
	lock sync.Mutex
	all  []string
}

// HandleWarningHeaderWithContext remembers a warning.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _ string, text string) {
	if code != 299 {
		return
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) have(text string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Contains(w.all, text)
}

// sleep waits some milliseconds, unless everything ends before.
func sleep(ctx context.Context, milliseconds int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return nil
	}
}
