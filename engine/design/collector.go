package design

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/engine/site"
)

type collector struct {
	pack
	files    fs.FS
	lim      Limits
	total    int64
	findings findings
	// designs are the CUE files, found the possible data files, secrets the files
	// in the site's folder of secrets.
	designs, found, secrets []foundFile
	// known are the texts of the last evaluation.
	known map[string]text
}

// text is the content of a file, with an id unique to that content if the file
// system has one.
type text struct {
	src []byte
	id  string
}

// foundFile is a file found by the walk.
type foundFile struct {
	name string
	fs.DirEntry
}

// contentID returns the file system's id for the content of a file, such as Git's.
// It is empty without one.
func (f foundFile) contentID() string {
	if known, ok := f.DirEntry.(interface{ ContentID() string }); ok {
		return known.ContentID()
	}
	return ""
}

func (c *collector) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if d.IsDir() {
		if c.foreign(name) {
			return fs.SkipDir
		}
		return nil
	}
	if isData(d.Name()) {
		c.found = append(c.found, foundFile{name, d})
	}
	if isDesign(d.Name()) {
		c.designs = append(c.designs, foundFile{name, d})
	} else if c.isSecret(name) && !hidden(d.Name()) {
		c.secrets = append(c.secrets, foundFile{name, d})
	}
	return nil
}

// foreign reports whether a directory is not part of the site: hidden by CUE's
// rules, or another site's.
func (c *collector) foreign(dir string) bool {
	if dir == "." {
		return false
	}
	return hidden(path.Base(dir)) || path.Dir(dir) == sitesDir && c.dir != "." && dir != c.dir
}

// ahead is how many files are read before their limits are checked, so that few are
// read in vain.
const ahead = 64

// takeAll takes files in order and reads them in chunks.
func (c *collector) takeAll(all []foundFile, into map[string][]byte) error {
	for some := range slices.Chunk(all, ahead) {
		texts, err := c.read(some)
		if err != nil {
			return err
		}
		for i, f := range some {
			if !c.take(f, texts[i], into) {
				return nil
			}
		}
	}
	return nil
}

// take adds a file to the pack. It returns false when the pack is full.
func (c *collector) take(f foundFile, src []byte, into map[string][]byte) bool {
	c.total += int64(len(src))
	switch {
	case !f.Type().IsRegular():
		c.report(f.name, "not-regular-file", "is not a regular file",
			"A link could lead out of the repository.", "Replace it by a file.")
	case int64(len(src)) > c.lim.FileBytes:
		c.report(f.name, "file-too-large", fmt.Sprintf("is larger than %d KiB", c.lim.FileBytes>>10),
			"The size of files is limited so that no commit can stop the daemon.", "Split it into several files.")
	case c.total > c.lim.PackageBytes:
		c.report(f.name, "too-large", fmt.Sprintf("takes the files over %d MiB", c.lim.PackageBytes>>20),
			"The size of a design is limited so that no commit can stop the daemon.", "Split the site, or generate less.")
		return false
	case len(c.pack.files)+len(c.data)+len(c.sealed) >= c.lim.Files:
		c.report(f.name, "too-large", fmt.Sprintf("is one file more than the %d that are read", c.lim.Files),
			"The size of a design is limited so that no commit can stop the daemon.", "Put more nodes into one file.")
		return false
	default:
		if isDesign(path.Base(f.name)) {
			c.findings.add(inspect(f.name, src)...)
		}
		into[f.name] = src
		c.ids[f.name] = f.contentID()
	}
	return true
}

// read reads several files at a time and skips those that are not regular.
func (c *collector) read(some []foundFile) ([][]byte, error) {
	texts := make([][]byte, len(some))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range some {
		if f.Type().IsRegular() {
			all.Go(func() (err error) {
				texts[i], err = c.readOne(f)
				return err
			})
		}
	}
	return texts, all.Wait()
}

// scratches are buffers that files are read into until they prove to differ from
// the last time.
var scratches = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// readOne reads a file up to one byte past its limit.
func (c *collector) readOne(f foundFile) ([]byte, error) {
	last, id := c.known[f.name], f.contentID()
	if id != "" && last.id == id {
		return last.src, nil
	}
	b := scratches.Get().(*bytes.Buffer)
	defer scratches.Put(b)
	b.Reset()
	if err := readInto(b, c.files, f.name, c.lim.FileBytes+1); err != nil {
		return nil, err
	}
	if last.src != nil && bytes.Equal(last.src, b.Bytes()) {
		return last.src, nil
	}
	return append([]byte{}, b.Bytes()...), nil
}

func (c *collector) report(name, code, what, why, fix string) {
	c.findings.add(site.Finding{
		Code: code, Severity: site.SeverityError, File: name,
		Message: path.Base(name) + " " + what, Why: why, Fix: fix,
	})
}

// readFile reads at most limit bytes of a file.
func readFile(files fs.FS, name string, limit int64) ([]byte, error) {
	var b bytes.Buffer
	err := readInto(&b, files, name, limit)
	return b.Bytes(), err
}

func readInto(b *bytes.Buffer, files fs.FS, name string, limit int64) error {
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = b.ReadFrom(io.LimitReader(f, limit))
	return err
}
