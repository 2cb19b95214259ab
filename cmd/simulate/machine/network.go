package machine

import (
	"math"
	"slices"
	"time"

	"github.com/allot-project/allot/cmd/simulate/disk"
)

// Errors of sockets, as WASI numbers them.
const (
	again       disk.Errno = 6
	inUse       disk.Errno = 3
	refused     disk.Errno = 14
	reset       disk.Errno = 15
	unconnected disk.Errno = 53
	broken      disk.Errno = 64
)

// window is how many bytes may be on their way, and unread.
const window = 256 << 10

// Host is a machine, or a client, on the network.
type Host struct {
	IP      uint32
	Name    string
	world   *World
	down    bool // it has no power
	ports   uint32
	listens map[uint32]*listener
	order   []*end // the ends, in the order in which they were made
}

// host makes one.
func (w *World) host(ip uint32, name string) *Host {
	h := &Host{IP: ip, Name: name, world: w, ports: 40000, listens: map[uint32]*listener{}}
	w.hosts[ip] = h
	return h
}

// Link is the way from one host to another, in one direction.
type Link struct {
	Delay   time.Duration // the least
	Jitter  time.Duration // and at most this besides
	Rate    int64         // bytes a second; 0: no bound
	Blocked bool
	free    int64 // when it has sent what it was given
	world   *World
	to      *Host
	from    *Host
}

// Link returns the way from one host to another.
func (w *World) Link(from, to uint32) *Link {
	key := [2]uint32{from, to}
	l := w.links[key]
	if l == nil {
		l = &Link{Delay: 200 * time.Microsecond, Jitter: 300 * time.Microsecond, world: w}
		l.from, l.to = w.hosts[from], w.hosts[to]
		if from == to {
			l.Delay, l.Jitter = 10*time.Microsecond, 10*time.Microsecond
		}
		w.links[key] = l
	}
	return l
}

// Block closes the way, or opens it: then what waited is sent again after a while.
func (l *Link) Block(blocked bool) {
	l.Blocked = blocked
	if blocked {
		return
	}
	for _, e := range slices.Clone(l.to.order) {
		if e.peer != nil && e.peer.host == l.from && len(e.coming) > 0 {
			e.notBefore = l.world.now + l.world.Random.Int64N(int64(time.Second))
			l.world.at(e.notBefore, e.deliver)
		}
	}
}

// arrival is when something that is sent at a time arrives.
func (l *Link) arrival(now int64, size int) int64 {
	l.free = max(l.free, now)
	if l.Rate > 0 {
		l.free += int64(size) * int64(time.Second) / l.Rate
	}
	at := l.free + int64(l.Delay)
	if l.Jitter > 0 {
		at += l.world.Random.Int64N(int64(l.Jitter))
	}
	return at
}

// listener takes connections.
type listener struct {
	host    *Host
	port    uint32
	waiting []*end
	wake    func()
}

// end is one of the two ends of a connection.
type end struct {
	host      *Host
	peer      *end
	ip, port  uint32 // of this end
	in        []byte // what arrived, and was not read
	coming    []segment
	underway  int // bytes in coming
	last      int64
	notBefore int64
	connected bool
	failed    disk.Errno // why it can be used no more
	ended     bool       // the other end sends no more
	shut      bool       // this end sends no more
	closed    bool
	lost      bool // nothing that is sent arrives, either way
	wake      func()
}

type segment struct {
	at   int64
	data []byte
	fin  bool
}

func (h *Host) end(ip, port uint32, wake func()) *end {
	e := &end{host: h, ip: ip, port: port, wake: wake}
	h.order = append(h.order, e)
	return e
}

// forget takes an end out of its host's list.
func (e *end) forget() {
	e.host.order = slices.DeleteFunc(e.host.order, func(o *end) bool { return o == e })
}

// port returns a port that nothing uses.
func (h *Host) port() uint32 {
	if h.ports++; h.ports == 65535 {
		h.ports = 40001
	}
	return h.ports
}

// listen begins to take connections at a port.
func (h *Host) listen(port uint32, wake func()) (*listener, disk.Errno) {
	if port == 0 {
		port = h.port()
	}
	if h.listens[port] != nil {
		return nil, inUse
	}
	l := &listener{host: h, port: port, wake: wake}
	h.listens[port] = l
	return l, disk.OK
}

func (l *listener) close() {
	if l.host.listens[l.port] == l {
		delete(l.host.listens, l.port)
	}
	for _, e := range l.waiting {
		e.close(l.host.world.now)
	}
	l.waiting = nil
}

// dial begins to connect.
func (h *Host) dial(now int64, ip, port uint32, wake func()) *end {
	if ip>>24 == 127 || ip == 0 {
		ip = h.IP
	}
	e := h.end(h.IP, h.port(), wake)
	e.ask(now, ip, port, time.Second)
	return e
}

// ask sends what asks for a connection, and again if it gets no answer.
func (e *end) ask(now int64, ip, port uint32, again time.Duration) {
	w := e.host.world
	there := w.hosts[ip]
	if there == nil {
		return // nothing answers
	}
	way, back := w.Link(e.host.IP, ip), w.Link(ip, e.host.IP)
	w.at(way.arrival(now, 60), func() {
		if way.Blocked || there.down || e.closed || e.connected {
			return
		}
		l := there.listens[port]
		if l == nil {
			w.at(back.arrival(w.now, 60), func() {
				if !back.Blocked {
					e.fail(refused)
				}
			})
			return
		}
		e.meet(l, back, ip, port)
	})
	w.at(now+int64(again), func() {
		if !e.connected && !e.closed && e.failed == 0 && e.peer == nil {
			e.ask(w.now, ip, port, 2*again)
		}
	})
}

// meet makes the other end.
func (e *end) meet(l *listener, back *Link, ip, port uint32) {
	w := e.host.world
	if e.peer != nil {
		return
	}
	other := l.host.end(ip, port, func() {})
	other.peer, e.peer, other.connected = e, other, true
	l.waiting = append(l.waiting, other)
	l.wake()
	var answer func()
	answer = func() {
		switch {
		case e.closed || e.failed != 0:
		case back.Blocked || e.host.down:
			w.After(time.Second, answer)
		default:
			e.connected = true
			e.wake()
		}
	}
	w.at(back.arrival(w.now, 60), answer)
}

// fail ends a connection for one end.
func (e *end) fail(why disk.Errno) {
	if e.failed == 0 {
		e.failed, e.in = why, nil
		e.wake()
	}
}

// room is how many bytes may be sent now.
func (e *end) room() int { return window - e.peer.underway - len(e.peer.in) }

// write sends as much as there is room for.
func (e *end) write(now int64, data []byte) (int, disk.Errno) {
	switch {
	case e.failed != 0:
		return 0, e.failed
	case e.shut || e.closed:
		return 0, broken
	case !e.connected:
		return 0, unconnected
	case len(data) == 0:
		return 0, disk.OK
	}
	n := min(len(data), e.room())
	if n <= 0 {
		return 0, again
	}
	e.send(now, segment{data: slices.Clone(data[:n])})
	return n, disk.OK
}

// send has the other end get something, in order.
func (e *end) send(now int64, s segment) {
	w, to := e.host.world, e.peer
	if e.lost {
		return
	}
	s.at = max(w.Link(e.host.IP, to.host.IP).arrival(now, len(s.data)+60), to.last)
	to.last = s.at
	to.coming = append(to.coming, s)
	to.underway += len(s.data)
	w.at(s.at, to.deliver)
}

// deliver takes what has arrived.
func (e *end) deliver() {
	w := e.host.world
	if e.host.down || e.lost || w.Link(e.peer.host.IP, e.host.IP).Blocked || w.now < e.notBefore {
		return
	}
	any := false
	for len(e.coming) > 0 && e.coming[0].at <= w.now {
		s := e.coming[0]
		e.coming = e.coming[1:]
		e.underway -= len(s.data)
		any = true
		if e.closed && len(s.data) > 0 || e.failed != 0 {
			e.answerReset()
			continue
		}
		e.in = append(e.in, s.data...)
		e.ended = e.ended || s.fin
	}
	if any {
		w.note(uint64(e.port), uint64(len(e.in)))
		e.wake()
	}
}

// answerReset tells the other end that there is no connection.
func (e *end) answerReset() {
	w, to := e.host.world, e.peer
	link := w.Link(e.host.IP, to.host.IP)
	w.at(link.arrival(w.now, 60), func() {
		if !link.Blocked && !to.host.down && !e.lost {
			to.fail(reset)
		}
	})
}

// read takes what has arrived.
func (e *end) read(to []byte) (int, disk.Errno) {
	switch {
	case len(e.in) > 0:
		full := e.peer.room() <= 0
		n := copy(to, e.in)
		if e.in = e.in[n:]; len(e.in) == 0 {
			e.in = nil
		}
		if full {
			e.peer.wake()
		}
		return n, disk.OK
	case e.failed != 0:
		return 0, e.failed
	case e.ended || e.closed:
		return 0, disk.OK
	}
	return 0, again
}

// readable reports whether a read would not wait.
func (e *end) readable() bool { return len(e.in) > 0 || e.failed != 0 || e.ended }

// writable reports whether a write would not wait.
func (e *end) writable() bool { return e.failed != 0 || e.shut || e.connected && e.room() > 0 }

// shutdown sends no more.
func (e *end) shutdown(now int64) {
	if !e.shut && e.connected && e.failed == 0 {
		e.shut = true
		e.send(now, segment{fin: true})
	}
}

// close ends a connection.
func (e *end) close(now int64) {
	if e.closed {
		return
	}
	if e.peer != nil && e.failed == 0 && (!e.connected || len(e.in) > 0) {
		e.answerReset()
	} else {
		e.shutdown(now)
	}
	e.closed, e.in, e.wake = true, nil, func() {}
	if e.peer == nil || e.peer.closed {
		e.forget()
		if e.peer != nil {
			e.peer.forget()
		}
	}
}

// vanish is what a power cut does to a connection: the other end hears nothing.
func (e *end) vanish() {
	e.closed, e.in, e.wake = true, nil, func() {}
	if e.peer == nil {
		e.forget()
	}
}

// off cuts a host's power, as the network sees it.
func (h *Host) off() {
	h.down = true
	h.listens = map[uint32]*listener{}
	for _, e := range slices.Clone(h.order) {
		e.vanish()
	}
}

// on gives it back: what others still send is answered by a reset.
func (h *Host) on() {
	h.down = false
	for _, e := range slices.Clone(h.order) {
		if e.closed && len(e.coming) > 0 {
			h.world.After(time.Duration(h.world.Random.Int64N(int64(3*time.Second))), e.deliver)
		}
	}
}

// Cut loses some connections between two hosts: they are reset, or, if they are half
// open, what is sent on them is lost. It returns how many.
func (w *World) Cut(a, b uint32, share float64, halfOpen bool) (count int) {
	for _, e := range slices.Clone(w.hosts[a].order) {
		if e.peer == nil || e.peer.host.IP != b || e.closed || w.Random.Float64() >= share {
			continue
		}
		count++
		if halfOpen {
			e.lost, e.peer.lost = true, true
		} else {
			e.fail(reset)
			e.peer.fail(reset)
		}
	}
	return count
}

// never is a time that does not come.
const never = math.MaxInt64
