package port

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"regexp"
)

// plainErrors replaces the plain text with which net/http itself answers requests
// that it cannot parse by Placement's error format. No handler sees these
// requests. net/http sends such an answer in one write, whose beginning no other
// answer has.
type plainErrors struct{ net.Listener }

// Accept implements net.Listener.
func (l plainErrors) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &plainErrorsConn{Conn: c}, nil
}

type plainErrorsConn struct {
	net.Conn
	read []byte // the last bytes read: the request, if it could not be parsed
}

var (
	plainAnswer = regexp.MustCompile(
		`^HTTP/1\.1 (4\d\d|5\d\d) [^\r]*\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n`,
	)
	plainStart = []byte("HTTP/1.1 ")
	badLength  = regexp.MustCompile(`(?im)^content-length:[ \t]*[^\r\n]*[^0-9 \t\r\n]`)
)

// Read implements net.Conn.
func (c *plainErrorsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read = b[:n]
	return n, err
}

// Write implements net.Conn.
func (c *plainErrorsConn) Write(b []byte) (int, error) {
	if !mayBePlain(b) {
		return c.Conn.Write(b)
	}
	match := plainAnswer.FindSubmatch(b)
	if match == nil {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(c.answer(string(match[1]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// mayBePlain spares almost all answers the regular expression.
func mayBePlain(b []byte) bool {
	return len(b) <= 512 && len(b) > len(plainStart) && bytes.HasPrefix(b, plainStart) && b[len(plainStart)] >= '4'
}

func (c *plainErrorsConn) answer(status string) []byte {
	var code int
	if _, err := fmt.Sscan(status, &code); err != nil {
		code = http.StatusBadRequest
	}
	detail := "The server could not comply with the request since it is either malformed or otherwise incorrect.\\n\\n "
	switch {
	case code == http.StatusBadRequest && badLength.Match(c.read):
		detail += "content-length header must be an integer"
	case code == http.StatusRequestHeaderFieldsTooLarge:
		detail += fmt.Sprintf("the headers have more than %d bytes", maxHeaderBytes)
	default:
		detail += "the request is not well-formed HTTP/1.1"
	}
	title := http.StatusText(code)
	body := fmt.Sprintf(`{"errors":[{"status":%d,"title":%q,"detail":"%s\n\n  "}]}`, code, title, detail)
	return fmt.Appendf(
		nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", code,
		title, len(body), body,
	)
}
