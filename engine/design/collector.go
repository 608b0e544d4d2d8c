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
	// designs are the CUE files, found those that may be data, secrets those in the
	// site's folder of secrets.
	designs, found, secrets []foundFile
	// known are texts from the last time.
	known map[string]text
}

// text is that of a file, with an id that tells it from every other, where the
// file system knows one.
type text struct {
	src []byte
	id  string
}

// foundFile is a file that a walk came by.
type foundFile struct {
	name string
	fs.DirEntry
}

// contentID is the id that the file system gives the content of a file, as Git
// does; empty without one.
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

// foreign says whether a directory is none of the site's: hidden, as CUE has
// it, or another site's.
func (c *collector) foreign(dir string) bool {
	if dir == "." {
		return false
	}
	return hidden(path.Base(dir)) || path.Dir(dir) == sitesDir && c.dir != "." && dir != c.dir
}

// ahead is how many files are read before they are looked at, so that little is
// read in vain.
const ahead = 64

// takeAll reads files in order, some at a time.
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

// take takes a file into the pack. It is false when there is no more room.
func (c *collector) take(f foundFile, src []byte, into map[string][]byte) bool {
	c.total += int64(len(src))
	switch {
	case !f.Type().IsRegular():
		c.report(f.name, "not-regular-file", "is not a regular file",
			"A link could lead out of the repository.", "Replace it by a file.")
	case int64(len(src)) > c.lim.FileBytes:
		c.report(f.name, "file-too-large", fmt.Sprintf("is larger than %d KiB", c.lim.FileBytes>>10),
			"Files are bounded so that no commit can exhaust the controller.", "Split it into several files.")
	case c.total > c.lim.PackageBytes:
		c.report(f.name, "too-large", fmt.Sprintf("takes the files over %d MiB", c.lim.PackageBytes>>20),
			"Designs are bounded so that no commit can exhaust the controller.", "Split the site, or generate less.")
		return false
	case len(c.pack.files)+len(c.data)+len(c.sealed) >= c.lim.Files:
		c.report(f.name, "too-large", fmt.Sprintf("is one file more than the %d that are read", c.lim.Files),
			"Designs are bounded so that no commit can exhaust the controller.", "Put more nodes into one file.")
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

// read reads files, several at a time; those that are no regular ones are left
// out.
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

// scratches are what files are read into until they are seen to be others than
// the last time.
var scratches = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// readOne reads a file, and a byte more of it than it may have.
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
