package design

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A request is a header and its files, a response any number of progress
// messages, an outcome and its nodes: each a JSON value, one after the other,
// so that neither side ever holds a whole design twice.

type header struct {
	Site    string    `json:"site"`
	Dir     string    `json:"dir"`
	Explain string    `json:"explain,omitempty"`
	Now     time.Time `json:"now"`
	// Files are CUE, Data JSON and YAML.
	Files   int           `json:"files"`
	Data    int           `json:"data,omitempty"`
	Memory  int64         `json:"memory"`
	Timeout time.Duration `json:"timeout"`
}

type file struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

type response struct {
	// Progress is what the worker is about to do.
	Progress string   `json:"progress,omitempty"`
	Outcome  *outcome `json:"outcome,omitempty"`
}

type outcome struct {
	// Site is without its nodes, which follow.
	Site     *site.Site     `json:"site,omitempty"`
	Nodes    int            `json:"nodes"`
	Findings []site.Finding `json:"findings,omitempty"`
	// Suppressed are findings that the design silences.
	Suppressed []site.Finding `json:"suppressed,omitempty"`
	// Explanation is there when it was asked for.
	Explanation *Explanation `json:"explanation,omitempty"`
	// Memory is what the worker holds of the system's, in bytes.
	Memory uint64 `json:"memory"`
}

// maxStack bounds the stack of a worker, in bytes: enough for any nesting that
// a person writes, and quickly reached by what nobody would.
const maxStack = 256 << 20

// exitOverdue is how a worker ends that outlived its deadline.
const exitOverdue = 3

// Work answers requests from in on out, one at a time, until in ends. It is
// the body of the command that an Evaluator starts, and bounds the process
// that it runs in.
func Work(in io.Reader, out io.Writer) error {
	debug.SetMaxStack(maxStack)
	requests := json.NewDecoder(bufio.NewReader(in))
	for {
		var h header
		if err := requests.Decode(&h); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		if err := serve(h, requests, out); err != nil {
			return err
		}
	}
}

func serve(h header, requests *json.Decoder, out io.Writer) error {
	// A parent that was killed cannot end its worker.
	overdue := time.AfterFunc(h.Timeout+time.Second, func() { os.Exit(exitOverdue) })
	defer overdue.Stop()
	if err := bound(h.Memory); err != nil {
		return err
	}
	p := pack{site: h.Site, dir: h.Dir, explain: h.Explain, now: h.Now, files: make(map[string][]byte, h.Files), data: make(map[string][]byte, h.Data)}
	if err := errors.Join(receiveFiles(requests, h.Files, p.files), receiveFiles(requests, h.Data, p.data)); err != nil {
		return err
	}
	return respond(p, out)
}

func receiveFiles(requests *json.Decoder, n int, into map[string][]byte) error {
	for range n {
		var f file
		if err := requests.Decode(&f); err != nil {
			return fmt.Errorf("read files: %w", err)
		}
		into[f.Name] = f.Data
	}
	return nil
}

func respond(p pack, out io.Writer) error {
	w := bufio.NewWriter(out)
	responses := json.NewEncoder(w)
	responses.SetEscapeHTML(false)
	result := evaluate(p, func(what string) {
		_ = responses.Encode(response{Progress: what})
		_ = w.Flush() // an error shows again at the outcome
	})
	var nodes []*site.Node
	if s := result.Site; s != nil {
		for _, name := range s.NodeNames() {
			nodes = append(nodes, s.Nodes[name])
		}
		s.Nodes = nil
	}
	err := responses.Encode(response{Outcome: &outcome{
		Site: result.Site, Nodes: len(nodes), Findings: result.Findings, Suppressed: result.Suppressed, Explanation: result.Explanation, Memory: held(),
	}})
	for _, n := range nodes {
		err = errors.Join(err, responses.Encode(n))
	}
	if err := errors.Join(err, w.Flush()); err != nil {
		return fmt.Errorf("write response: %w", err)
	}
	return nil
}

// bound limits the memory of this process. RLIMIT_AS would count what Go only
// reserves.
func bound(bytes int64) error {
	debug.SetMemoryLimit(bytes / 4 * 3)
	limit := unix.Rlimit{Cur: uint64(bytes), Max: unix.RLIM_INFINITY}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &now); err != nil {
		return fmt.Errorf("bound memory: %w", err)
	}
	limit.Max = now.Max
	limit.Cur = min(limit.Cur, limit.Max)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("bound memory: %w", err)
	}
	return nil
}

func held() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

// send writes a request.
func send(w io.Writer, p pack, lim Limits) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	err := e.Encode(header{Site: p.site, Dir: p.dir, Explain: p.explain, Now: p.now, Files: len(p.files), Data: len(p.data), Memory: lim.Memory, Timeout: lim.Timeout})
	for _, files := range []map[string][]byte{p.files, p.data} {
		for name, data := range files {
			if err != nil {
				return err
			}
			err = e.Encode(file{name, data})
		}
	}
	return errors.Join(err, b.Flush())
}

// receive reads a response. It says in at what the worker did last.
func receive(d *json.Decoder, at *string) (*outcome, error) {
	for {
		var m response
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		if m.Outcome == nil {
			*at = m.Progress
			continue
		}
		return m.Outcome, receiveNodes(d, m.Outcome)
	}
}

func receiveNodes(d *json.Decoder, o *outcome) error {
	if o.Site == nil {
		return nil
	}
	o.Site.Nodes = make(map[string]*site.Node, o.Nodes)
	same := interner{}
	for range o.Nodes {
		n := &site.Node{}
		if err := d.Decode(n); err != nil {
			return err
		}
		same.node(n)
		o.Site.Nodes[n.Name] = n
	}
	return nil
}

// interner lets equal strings of many nodes share their memory.
type interner map[string]string

func (i interner) string(s string) string {
	if known, ok := i[s]; ok {
		return known
	}
	i[s] = s
	return s
}

// node shares what nodes have in common: the paths of their origins, and what
// profiles gave them.
func (i interner) node(n *site.Node) {
	origins := make(map[string]site.Origin, len(n.Origins))
	for path, o := range n.Origins {
		origins[i.string(path)] = o
	}
	n.Origins = origins
	for kind, e := range n.Endpoints {
		e.Trust.CA, e.Credential = i.string(e.Trust.CA), i.string(e.Credential)
		n.Endpoints[site.EndpointKind(i.string(string(kind)))] = e
	}
	n.Role, n.Rack, n.Image, n.Power = i.string(n.Role), i.string(n.Rack), i.string(n.Image), i.string(n.Power)
	for _, list := range [][]string{n.Profiles, n.Boot.Order} {
		for at, s := range list {
			list[at] = i.string(s)
		}
	}
	n.Profiles, n.Boot.Order = slices.Clip(n.Profiles), slices.Clip(n.Boot.Order)
}
