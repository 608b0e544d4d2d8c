package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Exporter is a Daemon that gives away everything that it has recorded.
type Exporter interface {
	// Export writes a copy of the records that can be imported again.
	Export(ctx context.Context, w io.Writer) error
}

// serveState lets the records of a daemon that exports them be fetched. An
// error in the middle ends the connection; the copy then has no end.
func serveState(mux *http.ServeMux, d Daemon) {
	x, ok := d.(Exporter)
	if !ok {
		return
	}
	mux.HandleFunc("GET /v1/state", func(w http.ResponseWriter, r *http.Request) {
		out := &patientWriter{ResponseWriter: w}
		switch err := x.Export(r.Context(), out); {
		case err != nil && out.begun:
			panic(http.ErrAbortHandler)
		case err != nil:
			answer(w, r, nil, err)
		}
	})
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

// Export copies the daemon's records to w.
func (c *Client) Export(ctx context.Context, w io.Writer) error {
	req, err := c.request(ctx, http.MethodGet, "state", nil, nil)
	if err != nil {
		return err
	}
	endless := http.Client{Transport: c.http.Transport} // the whole may take longer than another answer
	resp, err := endless.Do(req)
	if err != nil {
		return c.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.failure(resp, json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)))
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read the daemon's records: %w", err)
	}
	return nil
}
