package machine

import "github.com/allot-project/allot/cmd/simulate/disk"

// woken wakes the program of a file.
func (r *running) woken() { r.wake(r.world.now) }

func sockListen(c *calling) disk.Errno {
	c.spend(callCost)
	l, failed := c.machine.listen(c.u32(1), c.woken)
	if failed != disk.OK {
		return failed
	}
	c.put32(2, c.open(&file{kind: listening, port: l}))
	c.put32(3, l.port)
	return disk.OK
}

func sockDial(c *calling) disk.Errno {
	c.spend(callCost)
	e := c.machine.dial(c.now, c.u32(0), c.u32(1), c.woken)
	c.put32(2, c.open(&file{kind: socket, end: e}))
	c.put32(3, e.ip)
	c.put32(4, e.port)
	return disk.OK
}

func sockConnected(c *calling) disk.Errno {
	return c.on(socket, func(f *file) disk.Errno { return f.end.failed })
}

func sockPeer(c *calling) disk.Errno {
	return c.on(socket, func(f *file) disk.Errno {
		c.put32(1, f.end.peer.ip)
		c.put32(2, f.end.peer.port)
		return disk.OK
	})
}

func sockAccept(c *calling) disk.Errno {
	c.spend(callCost)
	return c.on(listening, func(f *file) disk.Errno {
		if len(f.port.waiting) == 0 {
			return again
		}
		e := f.port.waiting[0]
		f.port.waiting = f.port.waiting[1:]
		e.wake = c.woken
		c.put32(2, c.open(&file{kind: socket, end: e}))
		return disk.OK
	})
}

func sockShutdown(c *calling) disk.Errno {
	return c.on(socket, func(f *file) disk.Errno {
		if c.u32(1)&2 != 0 {
			f.end.shutdown(c.now)
		}
		return disk.OK
	})
}
