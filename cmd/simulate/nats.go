package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/simulate/machine"
)

// natsPort is where servers take clients of NATS.
const natsPort = 4222

// requester sends requests over NATS, on a connection that it keeps. It speaks so much of
// the protocol as that takes, since a library would bring a clock and goroutines of its own.
type requester struct {
	conn  *machine.Conn
	from  *bufio.Reader
	asked int
}

func newRequester(c *machine.Client, ip uint32, patience time.Duration) (*requester, error) {
	conn, err := c.Dial(ip, natsPort, patience)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	conn.Patience = patience
	r := &requester{conn: conn, from: bufio.NewReader(conn)}
	_, err = io.WriteString(conn, `CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}`+
		"\r\nSUB _INBOX.sim.* 1\r\nPING\r\n")
	for err == nil {
		var line string
		if line, err = r.line(); line == "PONG" {
			return r, nil
		}
	}
	return nil, errors.Join(err, conn.Close())
}

// line reads a line of the protocol. It answers PING.
func (r *requester) line() (string, error) {
	line, err := r.from.ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	switch {
	case err != nil:
		return "", err
	case line == "PING":
		_, err = io.WriteString(r.conn, "PONG\r\n")
	case strings.HasPrefix(line, "-ERR"):
		err = errors.New(line)
	}
	return line, err
}

// reply is what is answered to a command.
type reply struct {
	Sequence  uint64                          `json:"sequence"`
	Nothing   bool                            `json:"nothing"`
	Rejection *struct{ Code, Message string } `json:"rejection"`
	Error     *struct {
		Code, Message string
		Retry         bool
	} `json:"error"`
}

// ask sends a command; an error: the outcome is not known.
func (r *requester) ask(name, id, body string) (*reply, error) {
	r.asked++
	inbox := fmt.Sprintf("_INBOX.sim.%d", r.asked)
	header := "NATS/1.0\r\nAllot-Command-Id: " + id + "\r\n\r\n"
	_, err := fmt.Fprintf(r.conn, "HPUB allot.command.%s %s %d %d\r\n%s%s\r\n",
		name, inbox, len(header), len(header)+len(body), header, body)
	for err == nil {
		var line string
		if line, err = r.line(); !strings.Contains(line, "MSG ") {
			continue
		}
		var text string
		if text, err = r.message(line); err == nil && strings.Fields(line)[1] == inbox {
			found := new(reply)
			if text == "" {
				return nil, errors.New("no server answers")
			}
			return found, json.Unmarshal([]byte(text), found)
		}
	}
	return nil, err
}

// message reads the body of a message: MSG SUBJECT SID BYTES, or HMSG SUBJECT SID HEADER BYTES.
func (r *requester) message(line string) (string, error) {
	fields, skip, size := strings.Fields(line), 0, 0
	_, err := fmt.Sscan(fields[len(fields)-1], &size)
	if err == nil && fields[0] == "HMSG" {
		_, err = fmt.Sscan(fields[len(fields)-2], &skip)
	}
	if err != nil || skip > size {
		return "", textproto.ProtocolError(line)
	}
	data := make([]byte, size+2)
	if _, err := io.ReadFull(r.from, data); err != nil {
		return "", err
	}
	return string(data[skip:size]), nil
}
