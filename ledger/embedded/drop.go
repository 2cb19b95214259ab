package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// errNotListening means that no socket of this process listens at an address.
var errNotListening = errors.New("embedded: nothing listens there")

// dropNew has the kernel drop what begins a connection from one of the networks to a
// port that this process listens at, and only that from now on. What is sent on
// connections that are there passes, also on those that the kernel makes meanwhile,
// which have the filter, too.
//
// The NATS server does not show its socket, so it is looked for among all files of
// the process. What is found is checked on a copy of its own: the file's number may be
// another file's a moment later.
func dropNew(at net.Addr, networks []netip.Prefix) error {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("%w: %v", errNotListening, at)
	}
	address := tcp.AddrPort()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	for _, file := range files {
		fd, err := strconv.Atoi(file.Name())
		if err != nil || !listensAt(fd, address) {
			continue
		}
		socket, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			continue // it is closed
		}
		found := listensAt(socket, address)
		if found {
			err = filter(socket, networks)
		}
		if failed := unix.Close(socket); err == nil {
			err = failed
		}
		if err != nil {
			return fmt.Errorf("embedded: %w", err)
		}
		if found {
			return nil
		}
	}
	return fmt.Errorf("%w: %v", errNotListening, at)
}

// listensAt reports whether a file is a socket that listens at an address. Another one may
// listen at the same port of another address.
func listensAt(fd int, address netip.AddrPort) bool {
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
		return false
	}
	var ip netip.Addr
	var port int
	switch at, _ := unix.Getsockname(fd); at := at.(type) {
	case *unix.SockaddrInet4:
		ip, port = netip.AddrFrom4(at.Addr), at.Port
	case *unix.SockaddrInet6:
		ip, port = netip.AddrFrom16(at.Addr), at.Port
	}
	return port == int(address.Port()) && ip.Unmap() == address.Addr().Unmap().WithZone("")
}

// filter gives a listening socket its filter, or takes it away if there is nobody to
// keep out.
func filter(socket int, networks []netip.Prefix) error {
	if len(networks) == 0 {
		err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		if errors.Is(err, unix.ENOENT) { // there was none
			return nil
		}
		return err
	}
	raw, err := bpf.Assemble(dropping(networks))
	if err != nil {
		return err
	}
	program := make([]unix.SockFilter, len(raw))
	for i, one := range raw {
		program[i] = unix.SockFilter{Code: one.Op, Jt: one.Jt, Jf: one.Jf, K: one.K}
	}
	return unix.SetsockoptSockFprog(
		socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]},
	)
}

const (
	// The kernel gives a filter of a TCP socket what begins with TCP's header, and at
	// ipHeader, which is below zero, with IP's.
	flagsAt, synAndAck, syn = 13, 0x12, 0x02
	ipHeader                = ^uint32(0xfffff) // SKF_NET_OFF
	from4, from6            = 12, 8            // the sender's address in IP's header
	all, none               = 1 << 18, 0       // how many bytes pass
)

// dropping returns the filter that lets nothing pass which begins a connection from one
// of the networks.
func dropping(networks []netip.Prefix) []bpf.Instruction {
	var v4, v6 []bpf.Instruction
	for _, network := range networks {
		if at := network.Addr(); at.Is4() {
			v4 = append(v4, drops(at.AsSlice(), network.Bits(), from4)...)
		} else {
			v6 = append(v6, drops(at.AsSlice(), network.Bits(), from6)...)
		}
	}
	pass := bpf.RetConstant{Val: all}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: flagsAt, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: synAndAck},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: syn, SkipTrue: 1},
		pass,
		bpf.LoadAbsolute{Off: ipHeader, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 4, SkipTrue: 1},
		bpf.Jump{Skip: uint32(len(v4)) + 1},
	}
	program = append(append(program, v4...), pass)
	return append(append(program, v6...), pass)
}

// drops lets nothing pass from one network, whose address stands at an offset.
func drops(network []byte, bits int, at uint32) (program []bpf.Instruction) {
	const perWord = 4 // instructions
	words := (bits + 31) / 32
	for i := range words {
		mask := ^uint32(0)
		if rest := bits - 32*i; rest < 32 {
			mask <<= 32 - rest
		}
		left := (words-i-1)*perWord + 1 // what follows of this network
		program = append(program,
			bpf.LoadAbsolute{Off: ipHeader + at + uint32(4*i), Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(network[4*i:]) & mask, SkipTrue: 1},
			bpf.Jump{Skip: uint32(left)},
		)
	}
	return append(program, bpf.RetConstant{Val: none})
}
