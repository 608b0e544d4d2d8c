package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Exporter is a Daemon that gives away everything that it has recorded.
type Exporter interface {
	// Export writes a copy of the records that can be imported again.
	Export(ctx context.Context, w io.Writer) error
}

// exportState lets the records of a daemon that exports them be fetched. An error in the middle ends
// the connection; the copy then has no end.
func exportState(c *call) (any, error) {
	x, ok := c.daemon.(Exporter)
	if !ok {
		return nil, fmt.Errorf("%w: this daemon exports no records", site.ErrRefused)
	}
	c.w.Header().Set("Content-Type", "application/octet-stream")
	out := &patientWriter{ResponseWriter: c.w}
	err := x.Export(c.r.Context(), out)
	if err != nil && out.begun {
		return written{}, errCut
	}
	return written{}, err
}

// errCut ends an answer in its middle.
var errCut = errors.New("the answer was not finished")

// Export copies the daemon's records to w.
func (c *Client) Export(ctx context.Context, w io.Writer) error {
	req, err := c.request(ctx, http.MethodPost, "/state", nil)
	if err != nil {
		return err
	}
	endless := http.Client{Transport: c.http.Transport, CheckRedirect: c.http.CheckRedirect} // the whole may take longer than another answer
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
