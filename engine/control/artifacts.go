package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
)

// Shelf is a Daemon that keeps artifacts. It is nil where it keeps none.
type Shelf interface {
	Artifacts() artifact.Keeper
}

// line is a line of an answer that tells how far something is: of bytes, or one
// of the others.
type line struct {
	Have    int64             `json:"have,omitempty"`
	Of      int64             `json:"of,omitempty"`
	Checked *artifact.Checked `json:"checked,omitempty"`
	Info    *artifact.Info    `json:"info,omitempty"`
	Failure *failure          `json:"failure,omitempty"`
	Done    bool              `json:"done,omitempty"`
}

// tellEvery is how often it is told at most how far something is.
const tellEvery = 200 * time.Millisecond

// lines writes an answer of lines.
type lines struct {
	w    *patientWriter
	last time.Time
	err  error
}

func newLines(w http.ResponseWriter) *lines {
	w.Header().Set("Content-Type", "application/jsonlines")
	return &lines{w: &patientWriter{ResponseWriter: w}}
}

func (l *lines) write(x line) {
	if l.err == nil {
		l.err = json.NewEncoder(l.w).Encode(x)
	}
	if l.err == nil {
		l.err = http.NewResponseController(l.w.ResponseWriter).Flush()
	}
}

func (l *lines) progress(have, of int64) {
	if now := time.Now(); now.Sub(l.last) >= tellEvery {
		l.last = now
		l.write(line{Have: have, Of: of})
	}
}

// end writes how it ended.
func (l *lines) end(i *artifact.Info, err error) {
	if err != nil {
		f, _ := failureOf(err)
		l.write(line{Failure: &f})
		return
	}
	l.write(line{Info: i, Done: true})
}

// ofShelf answers of the artifacts of a daemon that keeps them.
func ofShelf(serve func(artifact.Keeper, *call) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		var k artifact.Keeper
		if shelf, ok := c.daemon.(Shelf); ok {
			k = shelf.Artifacts()
		}
		if k == nil {
			return nil, &failure{Text: "this daemon has no artifact store: it only observes (--observe)", Kind: "refused"}
		}
		return serve(k, c)
	}
}

func addArtifact(k artifact.Keeper, c *call) (any, error) {
	q := c.r.URL.Query()
	i, err := k.AddFile(c.r.Context(), &patientReader{c.w, c.r.Body}, max(0, c.r.ContentLength), q.Get("sha256"), q.Get("name"), nil)
	// The time for an answer began with the request.
	if derr := http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTimeout)); err == nil {
		err = derr
	}
	return i, err
}

func fetchArtifact(k artifact.Keeper, c *call) (any, error) {
	l := newLines(c.w)
	f := artifact.File{URL: c.r.URL.Query().Get("url"), SHA256: c.r.URL.Query().Get("sha256"), For: "the file"}
	i, err := k.AddURL(c.r.Context(), f, l.progress)
	l.end(&i, err)
	return written{err}, nil
}

func verifyArtifacts(k artifact.Keeper, c *call) (any, error) {
	l := newLines(c.w)
	err := k.Verify(c.r.Context(), l.progress, func(x artifact.Checked) { l.write(line{Checked: &x}) })
	l.end(nil, err)
	return written{err}, nil
}

func collectArtifacts(k artifact.Keeper, c *call) (any, error) {
	unused, err := time.ParseDuration(c.r.URL.Query().Get("unused"))
	if err != nil || unused < 0 {
		return nil, fmt.Errorf("%w: \"unused\" is a time such as 720h", ErrBadRequest)
	}
	gone, err := k.Collect(c.r.Context(), unused, c.r.URL.Query().Get("dry") == "true")
	return append([]artifact.Info{}, gone...), err
}

// Artifacts are the daemon's.
func (c *Client) Artifacts() artifact.Keeper {
	return &shelf{c, http.Client{Transport: c.http.Transport, CheckRedirect: c.http.CheckRedirect}}
}

// shelf is a daemon's artifacts, elsewhere. What they answer may take as long as
// it takes.
type shelf struct {
	*Client
	patient http.Client
}

func (s *shelf) Listing(ctx context.Context) (l artifact.Listing, err error) {
	_, err = s.get(ctx, "/artifacts", "", &l)
	return l, err
}

func (s *shelf) AddFile(ctx context.Context, from io.Reader, size int64, digest, name string, progress func(int64)) (i artifact.Info, err error) {
	body := &counted{from: from, read: progress}
	req, err := s.request(ctx, http.MethodPut, "/artifacts?"+url.Values{"sha256": {digest}, "name": {name}}.Encode(), body)
	if err != nil {
		return i, err
	}
	if size > 0 {
		req.ContentLength = size
	}
	req.Header.Set("Expect", "100-continue") // a file that is there already is not sent
	_, err = s.doWith(&s.patient, req, &i)
	if body.err != nil { // the file's, not the daemon's
		err = body.err
	}
	return i, err
}

// counted tells how much was read, and keeps the error that ended it.
type counted struct {
	from io.Reader
	read func(int64)
	n    int64
	err  error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	if c.read != nil {
		c.read(c.n)
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func (s *shelf) AddURL(ctx context.Context, f artifact.File, progress func(have, size int64)) (i artifact.Info, err error) {
	err = s.lines(ctx, "/artifacts/fetch", url.Values{"url": {f.URL}, "sha256": {f.SHA256}}, func(l line) {
		if l.Info != nil {
			i = *l.Info
		} else if progress != nil {
			progress(l.Have, l.Of)
		}
	})
	return i, err
}

func (s *shelf) Verify(ctx context.Context, progress func(have, of int64), each func(artifact.Checked)) error {
	return s.lines(ctx, "/artifacts/verify", nil, func(l line) {
		if l.Checked != nil {
			each(*l.Checked)
		} else if !l.Done {
			progress(l.Have, l.Of)
		}
	})
}

func (s *shelf) Collect(ctx context.Context, unusedFor time.Duration, dry bool) (gone []artifact.Info, err error) {
	req, err := s.request(ctx, http.MethodPost, "/artifacts/collect?"+url.Values{"unused": {unusedFor.String()}, "dry": {strconv.FormatBool(dry)}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	_, err = s.do(req, &gone)
	return gone, err
}

// lines reads an answer of lines to its end.
func (s *shelf) lines(ctx context.Context, path string, query url.Values, each func(line)) error {
	req, err := s.request(ctx, http.MethodPost, path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := s.patient.Do(req)
	if err != nil {
		return s.explain(err)
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return s.failure(resp, dec)
	}
	for {
		var l line
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("the daemon ended before it was done")
		case err != nil:
			return fmt.Errorf("read the daemon's answer: %w", err)
		case l.Failure != nil:
			return l.Failure
		}
		each(l)
		if l.Done {
			return nil
		}
	}
}
