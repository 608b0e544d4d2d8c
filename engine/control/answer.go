package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// prepared is JSON that is ready to be sent, with its tag. Both are made once for all who are sent it.
type prepared struct {
	body []byte
	tag  string
}

// prepare is JSON with its tag.
func prepare(body []byte) prepared {
	sum := sha256.Sum256(body)
	return prepared{body, strconv.Quote(hex.EncodeToString(sum[:16]))}
}

// write writes a value with its tag, or nothing but that it is what the client has.
func (c *call) write(value any) error {
	p, is := value.(prepared)
	if !is {
		text, err := c.encoded(value)
		if err != nil {
			return err
		}
		p = prepare(text)
	}
	body := p.body
	if len(body) >= smallAnswer && !c.route.acts { // what was done is told in any case
		sent, err := c.limits.send(c.caller, body)
		if err != nil {
			return err
		}
		defer sent()
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("ETag", p.tag)
	if c.r.Header.Get("If-None-Match") == p.tag {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.w.Write(body) // a client that has gone needs no answer
	return nil
}

// smallAnswer is how large an answer is that is worth counting, in bytes.
const smallAnswer = 64 << 10

// slots bound how much is made ready at once: of a large site that takes memory before anybody knows how
// much.
type slots chan struct{}

func (s slots) begin(ctx context.Context) (free func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// encoded is a value as JSON. What was done is told without waiting in line.
func (c *call) encoded(value any) ([]byte, error) {
	if !c.route.acts {
		free, err := c.encoding.begin(c.client)
		if err != nil {
			return nil, err
		}
		defer free()
	}
	return json.Marshal(value)
}

// fail writes an error.
func fail(w http.ResponseWriter, err error) {
	f, status := failureOf(err)
	w.Header().Set("Content-Type", "application/json")
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="slipway"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(f)
}

// failureOf is an error as it crosses the connection.
func failureOf(err error) (f failure, status int) {
	f, status = failure{Text: err.Error()}, http.StatusInternalServerError
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			f.Kind, status = k.name, k.status
			break
		}
	}
	return f, status
}

// patientWriter writes an answer of any length to a reader that keeps reading.
type patientWriter struct {
	http.ResponseWriter
	begun bool
}

func (p *patientWriter) Write(b []byte) (int, error) {
	p.begun = true
	if err := http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap lets an answer be flushed.
func (p *patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// patientReader reads a request of any length from a writer that keeps writing.
type patientReader struct {
	w http.ResponseWriter
	io.Reader
}

func (p *patientReader) Read(b []byte) (int, error) {
	if err := http.NewResponseController(p.w).SetReadDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return p.Reader.Read(b)
}
