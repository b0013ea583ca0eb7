package leasehold

import (
	"runtime"
	"sync"

	leaseholdv1 "leasehold.dev/go/leasehold/v1"
)

const (
	// congested is the number of requests not yet sent from which a session takes no more acquires from callers.
	congested = 1024
	// mostAtOnce is the most requests sent at once after gathering brought no company several times in a row.
	mostAtOnce = 63
)

// outbound is the queue of requests for one stream, which one goroutine sends. Heartbeats overtake the others.
type outbound struct {
	mu sync.Mutex
	// changed is signalled when there is something to send, or when nothing more is to be sent.
	changed  *sync.Cond
	hasEnded bool
	queue    []*leaseholdv1.SessionRequest
	// first is the index of the first request in queue that is not sent.
	first int
	// heartbeat is the newest one that is not sent: an older one is worth nothing beside it.
	heartbeat *leaseholdv1.SessionRequest
	// atOnce is the number of requests to send without gathering others first; wasAtOnce is what it was set to last.
	atOnce, wasAtOnce int
	// room tells that there is room again.
	room signal
}

func newOutbound() *outbound {
	o := &outbound{}
	o.changed = sync.NewCond(&o.mu)
	return o
}

func (o *outbound) push(request *leaseholdv1.SessionRequest) {
	o.mu.Lock()
	if _, isHeartbeat := request.GetRequest().(*leaseholdv1.SessionRequest_Heartbeat); isHeartbeat {
		o.heartbeat = request
	} else {
		o.queue = append(o.queue, request)
	}
	o.mu.Unlock()
	o.changed.Signal()
}

// end lets next return nil from now on.
func (o *outbound) end() {
	o.mu.Lock()
	o.hasEnded = true
	o.mu.Unlock()
	o.changed.Signal()
}

// pop returns the next request; nil if there is none. The mutex is taken.
func (o *outbound) pop() *leaseholdv1.SessionRequest {
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
	if len(o.queue)-o.first < congested {
		o.room.send()
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
	return o.room.next()
}

// next waits for the next request; nil after the end.
func (o *outbound) next() *leaseholdv1.SessionRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.hasEnded {
		if next := o.pop(); next != nil {
			return next
		}
		o.changed.Wait()
		o.gather()
	}
	return nil
}

// gather lets goroutines that are about to push a request do so, since what is sent together costs less. On a machine without an idle
// processor that takes a while: a request that would be alone all the same, like those of a single goroutine, must not wait. The mutex
// is taken.
func (o *outbound) gather() {
	if o.heartbeat != nil {
		return
	}
	if o.atOnce > 0 {
		o.atOnce--
		return
	}
	before := len(o.queue)
	o.mu.Unlock()
	runtime.Gosched()
	o.mu.Lock()
	if len(o.queue) == before {
		o.wasAtOnce = min(2*o.wasAtOnce+1, mostAtOnce)
	} else {
		o.wasAtOnce = 0
	}
	o.atOnce = o.wasAtOnce
}
