// Package endings has the contexts of the adapters whose hosts ask for one before there is a lock.
package endings

import (
	"context"
	"sync"
)

// Contexts are contexts that end together, when a lock is lost or its client is closed. The zero value has none. All methods may be called
// from any number of goroutines.
type Contexts struct {
	mu  sync.Mutex
	all map[*context.CancelCauseFunc]struct{}
}

// Context returns a context that ends with the next call of End. Call cancel to free what it takes.
func (c *Contexts) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(parent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[*context.CancelCauseFunc]struct{})
	}
	c.all[&cancelCause] = struct{}{}
	return ctx, func() {
		c.mu.Lock()
		delete(c.all, &cancelCause)
		c.mu.Unlock()
		cancelCause(context.Canceled)
	}
}

// End ends all that there are, with this cause.
func (c *Contexts) End(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.all {
		(*cancel)(cause)
	}
	clear(c.all)
}
