package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type serverFlags struct {
	Allot string `help:"The server's program; default: allot beside this one, or else in PATH." type:"existingfile" placeholder:"FILE"`
}

type server struct {
	cmd        *exec.Cmd
	http, nats string // HOST:PORT, and a URL; empty: none
	ended      chan error
}

func (f serverFlags) program() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(own), "allot")
	if _, err := os.Stat(beside); err != nil && f.Allot == "" {
		beside = ""
	}
	path, err := exec.LookPath(cmp.Or(f.Allot, beside, "allot"))
	if err != nil {
		return "", fmt.Errorf("no server to measure: name its program with --allot: %w", err)
	}
	return path, nil
}

// start starts a server, and waits until it serves. What it says goes to standard error, if it
// is more than a message of its ordinary work.
func (f serverFlags) start(ctx context.Context, data string, flags ...string) (*server, error) {
	path, err := f.program()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"serve", "--data", data, "--http", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--log-format", "json",
	}, flags...)
	s := &server{cmd: exec.Command(path, args...), ended: make(chan error, 1)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	messages, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	serves := make(chan struct{})
	go func() {
		s.listen(messages, serves)
		s.ended <- s.cmd.Wait()
	}()
	select {
	case <-serves:
		return s, nil
	case err := <-s.ended:
		return nil, fmt.Errorf("the server does not serve: %w", cmp.Or(err, errors.New("it has ended")))
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), s.stop())
	}
}

// listen reads messages until the server ends, and tells when it serves.
func (s *server) listen(messages io.Reader, serves chan<- struct{}) {
	lines := bufio.NewScanner(messages)
	for lines.Scan() {
		var message struct {
			Level, Msg string
			HTTP, NATS string
		}
		err := json.Unmarshal(lines.Bytes(), &message)
		if err != nil || message.Level != "INFO" && message.Level != "DEBUG" {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
		if message.Msg == "serving" && s.http == "" {
			s.http, s.nats = message.HTTP, message.NATS
			close(serves)
		}
	}
}

// stop stops the server as its operator would.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return <-s.ended
}

// peakMemory is the most that the server had in memory, where the system says so.
func (s *server) peakMemory() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 && err == nil {
			return kb << 10
		}
	}
	return 0
}

// tick is the unit of times in /proc/PID/stat.
const tick = 10 * time.Millisecond

// processor is for how long the server had a processor, where the system says so.
func (s *server) processor() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, fields, _ := strings.Cut(string(text), ") ") // those before have the program's name
	list := strings.Fields(fields)
	if len(list) < 13 {
		return 0
	}
	user, err := strconv.ParseInt(list[11], 10, 64)
	system, failed := strconv.ParseInt(list[12], 10, 64)
	if err != nil || failed != nil {
		return 0
	}
	return time.Duration(user+system) * tick
}
