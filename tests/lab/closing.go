package lab

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
)

// The ways in which a BMC closes the connection after each answer.
const (
	ClosesAnnounced = "announced" // with Connection: close (RFC 9112 9.6)
	ClosesSilently  = "silently"  // without a word
	ClosesOld       = "http/1.0"  // whose connections end with the answer (RFC 9112 9.3)
)

// Closings are these ways, as MachineConfig.Closes names them.
var Closings = []string{ClosesAnnounced, ClosesSilently, ClosesOld}

// closing gives what an answer is written to, by how the BMC closes its
// connections, and what is to be done at its end.
func (m *Machine) closing(w http.ResponseWriter) (http.ResponseWriter, func()) {
	switch m.config.Closes {
	case "":
		return w, func() {}
	case ClosesAnnounced:
		w.Header().Set("Connection", "close")
		return w, func() {}
	}
	last := &lastAnswer{ResponseWriter: w, version: "HTTP/1.1"}
	if m.config.Closes == ClosesOld {
		last.version = "HTTP/1.0"
	}
	return last, last.end
}

// lastAnswer keeps an answer, and sends it as the last over its connection.
type lastAnswer struct {
	http.ResponseWriter
	version string
	status  int
	body    bytes.Buffer
}

func (l *lastAnswer) WriteHeader(status int)      { l.status = cmp.Or(l.status, status) }
func (l *lastAnswer) Write(p []byte) (int, error) { return l.body.Write(p) }

// end sends the answer; one that a panic breaks off is not sent.
func (l *lastAnswer) end() {
	if broken := recover(); broken != nil {
		panic(broken)
	}
	conn, w, err := l.ResponseWriter.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	status := cmp.Or(l.status, http.StatusOK)
	fmt.Fprintf(w, "%s %d %s\r\n", l.version, status, http.StatusText(status))
	if l.Header().Get("Content-Length") == "" && status != http.StatusNoContent && status != http.StatusNotModified {
		l.Header().Set("Content-Length", fmt.Sprint(l.body.Len()))
	}
	l.Header().Write(w)
	fmt.Fprint(w, "\r\n")
	w.Write(l.body.Bytes())
	w.Flush()
}
