package leasehold

import (
	"context"
	"sync"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

// congested is the number of requests not yet sent from which a session takes no more acquires from callers.
const congested = 1024

// outbound is the queue of requests for one stream, which one goroutine sends. Heartbeats overtake the others.
type outbound struct {
	// wake has room for one signal that there is something to send.
	wake chan struct{}

	mu    sync.Mutex
	queue []*leaseholdv1.SessionRequest
	// first is the index of the first request in queue that is not sent.
	first int
	// heartbeat is the newest one that is not sent: an older one is worth nothing beside it.
	heartbeat *leaseholdv1.SessionRequest
	// room is closed when there is room again; nil if nobody waits for it.
	room chan struct{}
}

func newOutbound() *outbound {
	return &outbound{wake: make(chan struct{}, 1)}
}

func (o *outbound) push(request *leaseholdv1.SessionRequest) {
	o.mu.Lock()
	if _, isHeartbeat := request.GetRequest().(*leaseholdv1.SessionRequest_Heartbeat); isHeartbeat {
		o.heartbeat = request
	} else {
		o.queue = append(o.queue, request)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// pop returns the next request; nil if there is none.
func (o *outbound) pop() *leaseholdv1.SessionRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	if next := o.heartbeat; next != nil {
		o.heartbeat = nil
		return next
	}
	if o.first == len(o.queue) {
		return nil
	}
	next := o.queue[o.first]
	o.queue[o.first] = nil
	o.first++
	if o.first == len(o.queue) {
		o.queue, o.first = o.queue[:0], 0
	}
	if o.room != nil && len(o.queue)-o.first < congested {
		close(o.room)
		o.room = nil
	}
	return next
}

// full returns a channel that is closed when there is room for more; nil if there is room.
func (o *outbound) full() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue)-o.first < congested {
		return nil
	}
	if o.room == nil {
		o.room = make(chan struct{})
	}
	return o.room
}

// next waits for the next request; nil if the context ends first.
func (o *outbound) next(ctx context.Context) *leaseholdv1.SessionRequest {
	for {
		if next := o.pop(); next != nil {
			return next
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return nil
		}
	}
}
