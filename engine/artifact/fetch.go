package artifact

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits of a fetch.
const (
	maxRedirects = 5
	maxHeaders   = 64 << 10 // bytes of a response header
	// defaultQuiet is how long a server may take to send leastProgress.
	defaultQuiet  = time.Minute
	leastProgress = 64 << 10
	// leastRate is how many bytes a second another daemon must send, with some time for the beginning.
	leastRate = 1e6
	copyGrace = 5 * time.Minute
	// maxOvers is how often a fetch starts over because the server's file
	// changed meanwhile.
	maxOvers = 3
)

// source is where files are fetched from.
type source struct {
	client *http.Client
	quiet  time.Duration
	grace  time.Duration // how long a copy may take beside leastRate
	files  *os.Root      // folder of file URLs; nil for none
	folder string        // absolute path of files
}

// bound limits the time of a copy, so that a slow daemon holds up neither other copies nor the fetch from elsewhere.
// The next try goes on from there.
func (s *source) bound(ctx context.Context, f File) (context.Context, context.CancelFunc) {
	if f.Copy.From == "" {
		return context.WithCancel(ctx)
	}
	within := s.grace + time.Duration(float64(f.Copy.Size)/leastRate*float64(time.Second))
	return context.WithTimeoutCause(ctx, within, fmt.Errorf("%s sends less than %s a second", f.from(), Bytes(leastRate)))
}

// SourceOptions say how files are fetched.
type SourceOptions struct {
	// Roots are the certificate authorities for https servers; nil means the
	// system's.
	Roots *x509.CertPool
	// Files is the folder that file URLs may name files below; empty for none.
	Files string
	// Quiet is how long a server may stay silent; 0 means a minute.
	Quiet time.Duration
}

func newSource(o SourceOptions) (*source, error) {
	s := &source{quiet: cmp.Or(o.Quiet, defaultQuiet)}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots}
	t.DialContext = (&net.Dialer{Timeout: min(10*time.Second, s.quiet)}).DialContext
	t.ResponseHeaderTimeout = s.quiet
	t.MaxResponseHeaderBytes = maxHeaders
	t.DisableCompression = true
	s.client = &http.Client{Transport: t, CheckRedirect: checkRedirect}
	if o.Files == "" {
		return s, nil
	}
	var err error
	if s.folder, err = filepath.Abs(o.Files); err == nil {
		s.files, err = os.OpenRoot(s.folder)
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of file URLs: %w", err)
	}
	return s, nil
}

func checkRedirect(to *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return sentence(ErrRefused, "the server of %s redirects more than %d times", shownURL(via[0].URL.String()), maxRedirects)
	case to.URL.Scheme != "http" && to.URL.Scheme != "https" || to.URL.Host == "":
		return sentence(ErrRefused, "the server of %s redirects to %s, and only http and https are followed", shownURL(via[0].URL.String()), shownURL(to.URL.String()))
	case from.Scheme == "https" && to.URL.Scheme != "https":
		return sentence(ErrRefused, "the server of %s redirects from https to http (%s)", shownURL(via[0].URL.String()), shownURL(to.URL.String()))
	case to.URL.User != nil:
		return sentence(ErrRefused, "the server of %s redirects to a URL with an account", shownURL(via[0].URL.String()))
	}
	return nil
}

// validator identifies the file of a part, so that a later try can continue it.
type validator struct {
	URL string `json:"url"`
	// Version is the strong ETag, or the date, by which the server
	// distinguishes versions of the file (RFC 9110, section 13.1.5).
	Version string `json:"version"`
	Size    int64  `json:"size"`
}

// fetch makes one try to bring a file into the store, continuing an earlier
// interrupted one. It also succeeds if the store has the file, or if somebody
// else brings it. It calls progress with the bytes so far and the total, 0 if the
// server does not say. Errors other than those of this package are worth another
// try.
func (s *Store) fetch(ctx context.Context, src *source, f File, progress func(have, size int64)) (Info, error) {
	name := "new-" + rand.Text()
	if f.SHA256 != "" {
		end, needed, err := s.begin(ctx, f.SHA256)
		if err != nil {
			return Info{}, err
		}
		if !needed {
			i, _ := s.Get(f.SHA256)
			return i, nil
		}
		defer end()
		name = f.SHA256
	}
	p, err := s.newPart(name)
	if err != nil {
		return Info{}, err
	}
	p.spare = f.Copy.Spare
	defer func() { p.abandon() }()
	_, noted := os.Stat(p.name + ".json")
	t := &try{part: p, src: src, file: f, progress: progress, earlier: noted == nil}
	within, cancel := src.bound(ctx, f)
	defer cancel()
	if err := t.run(within); err != nil {
		p.keep = f.SHA256 != "" && (p.size > 0 || t.earlier) && !errors.Is(err, ErrNoRoom)
		return Info{}, err
	}
	got := hex.EncodeToString(p.sum.Sum(nil))
	switch {
	case f.SHA256 == "" || got == f.SHA256:
		return s.complete(ctx, p, got, f)
	case t.resumed:
		// The part may be at fault: nobody knows what a crash did to it.
		return Info{}, fmt.Errorf("the file from %s arrived in parts that do not fit together; Slipway fetches it again", shownURL(f.URL))
	}
	if f.Copy.From != "" {
		return Info{}, sentence(ErrMismatch, "%s sent a file with the SHA-256 %s (%s) for %s: the copy there is damaged; this one was discarded", f.from(), got, Bytes(p.size), f.SHA256)
	}
	return Info{}, mismatch(f.SHA256, got, p.size, shownURL(f.URL))
}

// complete puts a complete file into the store. A file whose digest was unknown
// may be there already.
func (s *Store) complete(ctx context.Context, p *part, got string, f File) (Info, error) {
	if f.SHA256 == "" {
		end, needed, err := s.begin(ctx, got)
		if err != nil {
			return Info{}, err
		}
		if !needed {
			i, _ := s.Get(got)
			return i, nil
		}
		defer end()
	}
	name, source := f.URL, shownURL(f.URL)
	if f.Copy.From != "" {
		name, source = f.Copy.Name, printable(f.Copy.Source)
	}
	i, err := p.complete(got, name, source)
	if err == nil {
		os.Remove(p.name + ".json")
	}
	return i, err
}

// try is one try to fetch a file into a part.
type try struct {
	part     *part
	src      *source
	file     File
	progress func(have, size int64)
	of       validator
	// resumed is set while the part holds bytes of an earlier try.
	resumed bool
	// earlier is set until this try uses the part or begins it anew: until then it is what one from elsewhere has left,
	// and stays for the next of those.
	earlier bool
}

// run fetches the whole file.
func (t *try) run(ctx context.Context) error {
	u, err := url.Parse(t.file.URL)
	if err != nil {
		return sentence(ErrRefused, "the URL of %s cannot be read", t.file.For)
	}
	switch u.Scheme {
	case "http", "https":
	case "file":
		return t.copyFile(ctx, u)
	default:
		return sentence(ErrRefused, "%s is fetched by http, https or from a file, not from %s", t.file.For, shownURL(t.file.URL))
	}
	if err := t.takeUp(ctx); err != nil {
		return err
	}
	for range maxOvers {
		over, err := t.get(ctx)
		if !over {
			return err
		}
		if err := t.startOver(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the server of %s sends another file at each request", shownURL(t.file.URL))
}

// takeUp continues an earlier try, if possible.
func (t *try) takeUp(ctx context.Context) error {
	text, err := os.ReadFile(t.part.name + ".json")
	if err == nil {
		err = json.Unmarshal(text, &t.of)
	}
	switch {
	case err != nil || t.of.Version == "":
		return t.startOver()
	case t.of.URL != t.file.URL && !t.isOfDaemons():
		t.of = validator{}
		return nil
	}
	t.earlier = false
	if err := t.part.resume(ctx); err != nil {
		return err
	}
	if t.part.size == 0 || t.of.Size > 0 && t.part.size >= t.of.Size {
		return t.startOver()
	}
	t.resumed = true
	return nil
}

// isOfDaemons reports whether the part came from a daemon and goes on from another one: there the version is the digest.
func (t *try) isOfDaemons() bool {
	return t.file.Copy.From != "" && t.of.Version == strconv.Quote(t.file.SHA256)
}

func (t *try) startOver() error {
	t.of, t.resumed, t.earlier = validator{}, false, false
	if err := os.Remove(t.part.name + ".json"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.part.restart()
}

// get requests the file, or its rest, and stores it. It reports over if what was
// stored so far is useless.
func (t *try) get(ctx context.Context) (over bool, err error) {
	w := watchFor(ctx, t.src.quiet)
	defer w.stop()
	r, err := http.NewRequestWithContext(w.ctx, http.MethodGet, t.file.URL, nil)
	if err != nil {
		return false, sentence(ErrRefused, "the URL of %s cannot be asked for", t.file.For)
	}
	r.Header.Set("Accept-Encoding", "identity")
	if t.resumed {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", t.part.size))
		r.Header.Set("If-Range", t.of.Version)
	}
	answer, err := t.src.client.Do(r)
	if err != nil {
		return false, t.why(w, err)
	}
	defer answer.Body.Close()
	switch code := answer.StatusCode; {
	case t.resumed && code == http.StatusRequestedRangeNotSatisfiable:
		return true, nil
	case t.resumed && code == http.StatusPartialContent:
		if !t.goesOn(answer) {
			return true, nil
		}
	case code == http.StatusOK:
		if err := t.begins(answer); err != nil {
			return false, err
		}
	default:
		return false, answered(t.file.URL, code)
	}
	if err := t.part.expect(max(0, t.of.Size-t.part.size)); err != nil {
		return false, err
	}
	most := t.part.s.opts.Space
	if t.file.Copy.Size > 0 {
		most = min(most, t.file.Copy.Size)
	}
	err = t.part.copy(w.ctx, io.LimitReader(answer.Body, most+1-t.part.size), func(have int64) {
		w.saw(have)
		if t.progress != nil {
			t.progress(have, t.of.Size)
		}
	})
	if err != nil {
		return false, t.why(w, err)
	}
	if t.of.Size > 0 && t.part.size > t.of.Size {
		return false, sentence(ErrMismatch, "%s sends more than the %s of %s", t.file.from(), Bytes(t.of.Size), t.file.For)
	}
	if t.of.Size > 0 && t.part.size != t.of.Size {
		return false, fmt.Errorf("the server broke off after %s of %s of %s", Bytes(t.part.size), Bytes(t.of.Size), shownURL(t.file.URL))
	}
	return false, nil
}

// begins processes the header of a complete file.
func (t *try) begins(answer *http.Response) error {
	if err := t.startOver(); err != nil {
		return err
	}
	if e := answer.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return sentence(ErrRefused, "the server sends %s encoded as %s, and its digest is that of the plain file", shownURL(t.file.URL), printable(e))
	}
	size := max(0, answer.ContentLength)
	if most := t.part.s.opts.Space; size > most {
		return sentence(ErrNoRoom, "%s has %s, and the whole artifact store may hold %s; raise --artifact-space", shownURL(t.file.URL), Bytes(size), Bytes(most))
	}
	if must := t.file.Copy.Size; must > 0 && answer.ContentLength >= 0 && size != must {
		return sentence(ErrMismatch, "%s would send %s for %s, which has %s", t.file.from(), Bytes(size), t.file.For, Bytes(must))
	}
	t.of = validator{URL: t.file.URL, Version: version(answer.Header), Size: max(size, t.file.Copy.Size)}
	if t.file.SHA256 == "" || t.of.Version == "" {
		return nil
	}
	text, err := json.Marshal(t.of)
	if err == nil {
		err = os.WriteFile(t.part.name+".json", text, 0o600)
	}
	return err
}

// goesOn reports whether a response is the requested rest.
func (t *try) goesOn(answer *http.Response) bool {
	rest, ok := strings.CutPrefix(answer.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", t.part.size))
	last, total, slash := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(last, 10, 64)
	whole := strconv.FormatInt(t.of.Size, 10)
	return ok && slash && err == nil && n >= t.part.size &&
		(t.of.Size == 0 || total == whole && n == t.of.Size-1) &&
		(answer.ContentLength < 0 || answer.ContentLength == n-t.part.size+1)
}

// version returns what distinguishes the server's versions of a file. A weak
// ETag does not guarantee equal bytes.
func version(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

func answered(from string, status int) error {
	text := fmt.Sprintf("the server answers %d %s for %s", status, http.StatusText(status), shownURL(from))
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return errors.New(text + "; its log says why")
	}
	return sentence(ErrRefused, "%s; check that the file is there and that everybody may read it", text)
}

// why explains an error of a request. Errors of package net/http contain the
// whole URL, including possible secrets.
func (t *try) why(w *watch, err error) error {
	var ours *sentenced
	if errors.As(err, &ours) {
		return ours
	}
	var ofURL *url.Error
	if errors.As(err, &ofURL) {
		err = ofURL.Err
	}
	switch cause := context.Cause(w.ctx); {
	case errors.Is(cause, errQuiet):
		return fmt.Errorf("the server sent less than %s of %s in %s", Bytes(leastProgress), shownURL(t.file.URL), t.src.quiet)
	case cause != nil:
		return cause
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the server broke off after %s of %s", Bytes(t.part.size), shownURL(t.file.URL))
	}
	return fmt.Errorf("fetch %s: %w", shownURL(t.file.URL), err)
}

// copyFile copies a file of this host from below the permitted folder.
func (t *try) copyFile(ctx context.Context, u *url.URL) error {
	if t.src.files == nil || u.Host != "" {
		return sentence(ErrRefused, "%s is a file of this host, and the daemon may read none; name a folder with --artifact-files", shownURL(t.file.URL))
	}
	name, err := filepath.Rel(t.src.folder, filepath.Clean(u.Path))
	if err != nil || !filepath.IsLocal(name) {
		return sentence(ErrRefused, "%s is not below %s, the folder of --artifact-files", shownURL(t.file.URL), t.src.folder)
	}
	f, err := t.src.files.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not block
	if err != nil {
		return sentence(ErrRefused, "%s cannot be read: %v", shownURL(t.file.URL), errors.Unwrap(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return sentence(ErrRefused, "%s is not a regular file", shownURL(t.file.URL))
	}
	if err := t.startOver(); err != nil {
		return err
	}
	if err := t.part.expect(info.Size()); err != nil {
		return err
	}
	return t.part.copy(ctx, f, func(have int64) {
		if t.progress != nil {
			t.progress(have, info.Size())
		}
	})
}

var errQuiet = errors.New("too quiet")

// watch ends a context after too little progress for some time.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	quiet  time.Duration
	at     int64 // bytes at the last progress
}

func watchFor(ctx context.Context, quiet time.Duration) *watch {
	w := &watch{quiet: quiet, at: -1}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	// The client limits the time of the header; each redirect has its own.
	w.timer = time.AfterFunc((maxRedirects+2)*quiet, func() { w.cancel(errQuiet) })
	return w
}

// saw notes how many bytes have arrived.
func (w *watch) saw(have int64) {
	if w.at < 0 || have-w.at >= leastProgress {
		w.at = have
		w.timer.Reset(w.quiet)
	}
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
