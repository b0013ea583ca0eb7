package servertest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy passes connections on to a coordinator, until the test holds their bytes back.
type Proxy struct {
	// URL is the endpoint that leads through it.
	URL string

	t        testing.TB
	listener net.Listener
	target   string
	serving  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	// isSilent is set while it holds back what comes, in both directions and on new connections too.
	isSilent bool
	// isRefusing is set while it ends new connections.
	isRefusing bool
	isOver     bool
	// conns are all connections; those to the coordinator are true.
	conns map[net.Conn]bool
}

// Through starts a proxy before the coordinator. It ends with the test.
func Through(t testing.TB, server *Server) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		URL: server.scheme + "://" + listener.Addr().String(), t: t,
		listener: listener, target: server.Address, conns: make(map[net.Conn]bool),
	}
	p.changed = sync.NewCond(&p.mu)
	p.serving.Go(p.accept)
	t.Cleanup(p.end)
	return p
}

// Silence holds back every byte from now on, as a network does that loses all packets.
func (p *Proxy) Silence() { p.setSilent(true) }

// Disconnect holds back every byte, and ends the connections to the coordinator, which takes that for the end of the clients. They hear
// nothing of it.
func (p *Proxy) Disconnect() {
	p.Silence()
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, isToCoordinator := range p.conns {
		if isToCoordinator {
			conn.Close()
		}
	}
}

// Refuse ends each new connection from now on, and leaves those that there are.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isRefusing = true
}

// Forward delivers what was held back, and what comes from now on, on new connections too.
func (p *Proxy) Forward() { p.setSilent(false) }

func (p *Proxy) setSilent(isSilent bool) {
	p.mu.Lock()
	p.isSilent = isSilent
	p.isRefusing = p.isRefusing && isSilent
	p.mu.Unlock()
	p.changed.Broadcast()
}

func (p *Proxy) end() {
	p.mu.Lock()
	p.isOver = true
	for conn := range p.conns {
		conn.Close()
	}
	p.mu.Unlock()
	p.changed.Broadcast()
	p.listener.Close()
	p.serving.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = false, true
		if p.isOver || p.isRefusing {
			client.Close()
			server.Close()
		}
		p.mu.Unlock()
		p.serving.Go(func() { p.pass(server, client) })
		p.serving.Go(func() { p.pass(client, server) })
	}
}

// pass copies until the source ends, and then closes the other side.
func (p *Proxy) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	_, _ = io.Copy(gated{p, to}, from)
	// The end waits too: nobody hears of it in a silence.
	p.wait()
}

// wait waits until bytes may pass.
func (p *Proxy) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.isSilent && !p.isOver {
		p.changed.Wait()
	}
}

// gated writes when bytes may pass.
type gated struct {
	proxy *Proxy
	to    io.Writer
}

func (g gated) Write(bytes []byte) (int, error) {
	g.proxy.wait()
	return g.to.Write(bytes)
}
