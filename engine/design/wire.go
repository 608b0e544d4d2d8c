package design

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/confine"
	"github.com/slipway-gitops/slipway/engine/design/author"
)

// Requests and answers are frames: a length as a varint, and as many bytes. A
// request is a header, then a name and a text for each CUE file and each data
// file, then the trees of nodes if the header says so. An answer is any number
// of progress frames, then the outcome.

// header describes a request.
type header struct {
	Ask       question      `json:"ask"`
	Site      string        `json:"site"`
	Dir       string        `json:"dir"`
	Sections  []string      `json:"sections,omitempty"`
	Divided   bool          `json:"divided,omitempty"`
	Entangled bool          `json:"entangled,omitempty"`
	Files     int           `json:"files"`
	Data      int           `json:"data,omitempty"`
	Trees     bool          `json:"trees,omitempty"`
	Edit      *author.Edit  `json:"edit,omitempty"`
	Memory    int64         `json:"memory"`
	Timeout   time.Duration `json:"timeout"`
}

// question is what a worker is asked for.
type question string

const (
	askOutline question = "outline" // the outlines of files, as JSON by name
	askExtract question = "extract" // what CUE makes of a pack
	askJudge   question = "judge"   // what the site's own constraints make of nodes
	askFormat  question = "format"  // the text of a file as it should look, as JSON
	askMigrate question = "migrate" // the texts of the present schema, as JSON
	askEdit    question = "edit"    // the texts with values of a node changed, as JSON
)

// request is a question to a worker, and its subject.
type request struct {
	ask  question
	pack pack
	// nodes are those to judge.
	nodes []layer
	// edit is what to change in the files; nil for nothing.
	edit *author.Edit
}

// The first byte of a frame of an answer.
const (
	progressFrame = 'p'
	outcomeFrame  = 'o'
)

// maxStack limits the stack of a worker, in bytes. It is enough for any nesting
// that a person writes, and stops excessive nesting quickly.
const maxStack = 256 << 20

// exitOverdue is the exit code of a worker that outlived its deadline.
const exitOverdue = 3

// maxRequest limits a request's frame, in bytes.
const maxRequest = 1 << 30

// Work answers requests from in on out, one at a time, until in ends. It is the
// body of the command that an Evaluator starts. It limits and confines its
// process: if a fault in the evaluator lets a design run code, that code can
// open no file and no connection.
func Work(in io.Reader, out io.Writer) error {
	debug.SetMaxStack(maxStack)
	requests, answers := bufio.NewReaderSize(in, 1<<16), bufio.NewWriterSize(out, 1<<16)
	killFirst()
	if err := confine.Self(); err != nil {
		return err
	}
	var ready *basis
	for {
		if ready == nil {
			ready = newBasis(true)
		}
		text, err := readFrame(requests, maxRequest)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var h header
		if err == nil {
			err = json.Unmarshal(text, &h)
		}
		if err == nil {
			err = serve(h, ready, requests, answers)
		}
		if h.Ask == askExtract {
			ready = nil // used up
		}
		if err != nil {
			return fmt.Errorf("answer request: %w", err)
		}
	}
}

func serve(h header, ready *basis, in *bufio.Reader, out *bufio.Writer) error {
	// A killed parent cannot end its worker.
	overdue := time.AfterFunc(h.Timeout+time.Second, func() { os.Exit(exitOverdue) })
	defer overdue.Stop()
	if err := bound(h.Memory); err != nil {
		return err
	}
	r, err := readRequest(h, in)
	if err != nil {
		return err
	}
	outcome := answer(r, ready, func(what string) {
		_ = writeFrame(out, progressFrame, []byte(what))
		_ = out.Flush() // an error shows again at the outcome
	})
	held := binary.AppendUvarint(nil, held())
	if err := writeFrame(out, outcomeFrame, held, outcome); err != nil {
		return err
	}
	return out.Flush()
}

func readRequest(h header, in *bufio.Reader) (request, error) {
	r := request{ask: h.Ask, edit: h.Edit, pack: pack{
		site: h.Site, dir: h.Dir, sections: h.Sections, divided: h.Divided, entangled: h.Entangled,
		files: make(map[string][]byte, h.Files), data: make(map[string][]byte, h.Data),
	}}
	if err := errors.Join(readFiles(in, h.Files, r.pack.files), readFiles(in, h.Data, r.pack.data)); err != nil {
		return r, err
	}
	if !h.Trees {
		return r, nil
	}
	trees, err := readFrame(in, maxRequest)
	if err != nil {
		return r, err
	}
	d := newDecoder(trees)
	r.nodes = d.layers()
	return r, d.err
}

func readFiles(in *bufio.Reader, n int, into map[string][]byte) error {
	for range n {
		name, err1 := readFrame(in, maxRequest)
		text, err2 := readFrame(in, maxRequest)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		into[string(name)] = text
	}
	return nil
}

// answer returns the outcome of a request. ready may be a prepared basis.
func answer(r request, ready *basis, progress func(string)) []byte {
	e := newEncoder()
	switch r.ask {
	case askOutline:
		progress("parsing the files")
		text, _ := json.Marshal(outlinesOf(r.pack)) // texts and numbers
		return text
	case askExtract:
		e.extract(extractOf(r.pack, ready, progress))
	case askJudge:
		e.layers(judgeHere(r.pack, r.nodes, progress))
	case askMigrate:
		progress("rewriting the files")
		text, _ := json.Marshal(migrateHere(r.pack)) // texts and numbers
		return text
	case askEdit:
		progress("editing the files")
		text, _ := json.Marshal(editHere(r.pack, *r.edit)) // texts
		return text
	case askFormat:
		progress("formatting it")
		text, _ := json.Marshal(formatAll(r.pack)) // texts and numbers
		return text
	}
	return e.out
}

// outlinesOf divides files.
func outlinesOf(p pack) map[string]*outline {
	l := newLoader(p)
	l.readModule()
	all := map[string]*outline{}
	for name, text := range p.files {
		if name != moduleFile {
			all[name] = outlineOf(name, text, l.version)
		}
	}
	return all
}

func readFrame(r *bufio.Reader, most int64) ([]byte, error) {
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if size > uint64(most) {
		return nil, errResponse
	}
	text := make([]byte, size)
	_, err = io.ReadFull(r, text)
	return text, err
}

// writeFrame writes a frame that begins with a byte for its kind.
func writeFrame(w *bufio.Writer, kind byte, parts ...[]byte) error {
	size := 1
	for _, p := range parts {
		size += len(p)
	}
	_, err := w.Write(append(binary.AppendUvarint(nil, uint64(size)), kind))
	for _, p := range parts {
		if err == nil {
			_, err = w.Write(p)
		}
	}
	return err
}

// killFirst makes the kernel kill this process before others when memory runs
// out, in its unit's control group or on the host. A worker can be replaced,
// its parent cannot. Any user may raise the score of their own process
// (proc(5), oom_score_adj). Without /proc the kernel decides by size.
func killFirst() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) }

// bound limits the memory of this process. It does not use RLIMIT_AS, which
// would count memory that Go only reserves.
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
func send(to io.Writer, r request, lim Limits) error {
	w := bufio.NewWriterSize(to, 1<<16)
	h, err := json.Marshal(header{
		Ask: r.ask, Site: r.pack.site, Dir: r.pack.dir, Sections: r.pack.sections, Divided: r.pack.divided,
		Entangled: r.pack.entangled, Files: len(r.pack.files), Data: len(r.pack.data), Trees: r.nodes != nil, Edit: r.edit, Memory: lim.Memory, Timeout: lim.Timeout,
	})
	if err != nil {
		return err
	}
	writeText(w, h)
	for _, files := range []map[string][]byte{r.pack.files, r.pack.data} {
		for name, text := range files {
			writeText(w, name)
			writeText(w, text)
		}
	}
	if r.nodes != nil {
		e := newEncoder()
		e.layers(r.nodes)
		writeText(w, e.out)
	}
	return w.Flush()
}

// receive reads an answer of at most most bytes. It stores the worker's last
// reported stage in at, and returns how much memory the worker holds.
func receive(r *bufio.Reader, most int64, at *string) (outcome []byte, held uint64, err error) {
	for {
		text, err := readFrame(r, most)
		if err != nil {
			return nil, 0, err
		}
		most -= int64(len(text))
		switch {
		case len(text) > 0 && text[0] == progressFrame:
			*at = string(text[1:])
		case len(text) > 0 && text[0] == outcomeFrame:
			held, size := binary.Uvarint(text[1:])
			if size <= 0 {
				return nil, 0, errEncoding
			}
			return text[1+size:], held, nil
		default:
			return nil, 0, errEncoding
		}
	}
}
