package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/simulate/machine"
)

// natsPort is where servers take clients of NATS.
const natsPort = 4222

// requester sends requests over NATS, on a connection that it keeps. It speaks so much of
// the protocol as that takes, since a library would bring a clock and goroutines of its own.
type requester struct {
	now   func() time.Duration
	conn  *machine.Conn
	from  *bufio.Reader
	asked int
	told  []message // notices that came while a reply was waited for
}

// message is one that came.
type message struct{ subject, header, text string }

func newRequester(c *machine.Client, ip uint32, patience time.Duration) (*requester, error) {
	conn, err := c.Dial(ip, natsPort, patience)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	conn.Patience = patience
	r := &requester{now: c.Now, conn: conn, from: bufio.NewReader(conn)}
	_, err = io.WriteString(conn,
		`CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}`+"\r\n")
	if err == nil {
		err = r.subscribe("_INBOX.sim.*")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return r, nil
}

// subscribe waits until the server knows what is subscribed to.
func (r *requester) subscribe(subjects ...string) error {
	for _, subject := range subjects {
		r.asked++
		if _, err := fmt.Fprintf(r.conn, "SUB %s %d\r\n", subject, r.asked); err != nil {
			return err
		}
	}
	_, err := io.WriteString(r.conn, "PING\r\n")
	for err == nil {
		var line string
		if line, err = r.line(); line == "PONG" {
			return nil
		}
		if err == nil && strings.Contains(line, "MSG ") {
			var m message
			m, err = r.message(line)
			r.told = append(r.told, m)
		}
	}
	return err
}

// next returns the next message.
func (r *requester) next() (m message, err error) {
	if len(r.told) > 0 {
		m, r.told = r.told[0], r.told[1:]
		return m, nil
	}
	return r.read()
}

func (r *requester) read() (message, error) {
	for {
		line, err := r.line()
		if err != nil {
			return message{}, err
		}
		if strings.Contains(line, "MSG ") {
			return r.message(line)
		}
	}
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
	Result    *reply                          `json:"result"` // of an atomic batch
	Rejection *struct{ Code, Message string } `json:"rejection"`
	Error     *struct {
		Code, Message string
		Retry         bool
	} `json:"error"`
}

// ask sends a command; an error: the outcome is not known.
func (r *requester) ask(name, id, body string) (*reply, error) {
	subject := "allot.command." + name
	if name == "Batch" {
		subject = "allot.batch"
	}
	text, err := r.request(subject, "Allot-Command-Id: "+id+"\r\n", body)
	if err != nil {
		return nil, err
	}
	found := new(reply)
	if err = json.Unmarshal([]byte(text), found); found.Result != nil {
		found = found.Result
	}
	return found, err
}

// request sends a request, and waits for its reply as long as for anything else, however
// much else comes: a reply may be lost.
func (r *requester) request(subject, header, body string) (string, error) {
	r.asked++
	inbox := fmt.Sprintf("_INBOX.sim.%d", r.asked)
	header = "NATS/1.0\r\n" + header + "\r\n"
	_, err := fmt.Fprintf(r.conn, "HPUB %s %s %d %d\r\n%s%s\r\n",
		subject, inbox, len(header), len(header)+len(body), header, body)
	for until := r.now() + r.conn.Patience; err == nil; {
		var m message
		switch m, err = r.read(); {
		case err != nil:
		case m.subject != inbox && r.now() > until:
			err = os.ErrDeadlineExceeded
		case m.subject != inbox:
			r.told = append(r.told, m)
		case m.text == "":
			return "", errors.New("no server answers")
		default:
			return m.text, nil
		}
	}
	return "", err
}

// message reads the rest of a message: MSG SUBJECT SID BYTES, or HMSG SUBJECT SID HEADER BYTES.
func (r *requester) message(line string) (message, error) {
	fields, head, size := strings.Fields(line), 0, 0
	_, err := fmt.Sscan(fields[len(fields)-1], &size)
	if err == nil && fields[0] == "HMSG" {
		_, err = fmt.Sscan(fields[len(fields)-2], &head)
	}
	if err != nil || head > size {
		return message{}, textproto.ProtocolError(line)
	}
	data := make([]byte, size+2)
	if _, err := io.ReadFull(r.from, data); err != nil {
		return message{}, err
	}
	return message{fields[1], string(data[:head]), string(data[head:size])}, nil
}
