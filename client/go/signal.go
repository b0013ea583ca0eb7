package leasehold

// signal tells all that wait for it that something has happened, by a channel that is closed and forgotten then. Its owner's mutex guards it.
type signal struct {
	// channel is nil if nobody waits.
	channel chan struct{}
}

// next returns a channel that is closed when something happens next.
func (s *signal) next() <-chan struct{} {
	if s.channel == nil {
		s.channel = make(chan struct{})
	}
	return s.channel
}

func (s *signal) send() {
	if s.channel != nil {
		close(s.channel)
		s.channel = nil
	}
}
