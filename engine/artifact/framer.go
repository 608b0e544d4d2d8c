package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/confine"
	"github.com/slipway-gitops/slipway/engine/frames"
	"github.com/slipway-gitops/slipway/engine/qcow2"
)

// The forms in which images of whole disks are fetched.
const (
	Raw   = "raw"
	Qcow2 = "qcow2"
)

// Bounds of a process that puts an image into frames.
const (
	framedWithin   = 2 * time.Hour
	framerMemory   = 1 << 30
	mostComplaints = 4096 // bytes of what it says is wrong
)

// Framer is the command of a process that puts the image of a disk into frames, to which the
// form is added: the program that calls FrameImage. The process gets two open files, that of
// the image to read and a pipe to write to, an empty environment, and nothing else. So whatever
// is in an image, it can do no harm to the daemon.
type Framer []string

// run puts an image into frames. Its error wraps ErrRefused where the image is none.
func (c Framer) run(ctx context.Context, image *os.File, form string, to io.Writer) error {
	if len(c) == 0 {
		return errors.New("this program does not put disk images into frames; the daemon does")
	}
	ctx, cancel := context.WithTimeout(ctx, framedWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, c[0], append(c[1:len(c):len(c)], form)...)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin = image
	said := &complaints{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = io.Copy(to, out)
	if err != nil {
		cancel() // nobody takes the rest
	}
	ended := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err != nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return sentence(ErrRefused, "putting the image into frames took longer than %s: someone may have built the image to keep its readers busy", framedWithin)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(ended, &exit) && exit.ExitCode() == refusedCode:
		return sentence(ErrRefused, "the image cannot be written to a disk: %s", printable(strings.TrimSpace(said.String())))
	case ended != nil:
		return fmt.Errorf("the process that puts an image into frames: %w: %s", ended, printable(strings.TrimSpace(said.String())))
	}
	return nil
}

// complaints keeps the first of what a process says.
type complaints struct{ bytes.Buffer }

func (c *complaints) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), max(0, mostComplaints-c.Len()))])
	return len(p), nil
}

// refusedCode is that with which the process ends where the image is at fault.
const refusedCode = 65

// FrameImage is the process of a Framer: it puts an image in some form into frames, says what is
// wrong, and gives the code to exit with.
func FrameImage(form string, image *os.File, to, complain io.Writer) (code int) {
	if err := boundFramer(); err != nil {
		fmt.Fprintln(complain, err)
		return 1
	}
	if err := frameImage(form, image, to); err != nil {
		fmt.Fprintln(complain, err)
		if errors.Is(err, syscall.EPIPE) {
			return 1
		}
		return refusedCode
	}
	return 0
}

// boundFramer bounds this process: it opens nothing, writes no file, takes little memory, and is
// ended before others when there is none.
func boundFramer() error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	debug.SetMemoryLimit(framerMemory / 4 * 3)
	return errors.Join(
		syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: framerMemory, Max: framerMemory}),
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}),
		confine.Self())
}

// packed are the beginnings of files that somebody may take for an image.
var packed = map[string]string{"\x1f\x8b": "gzip", "\xfd7zXZ": "xz", "\x28\xb5\x2f\xfd": "zstd", "BZh": "bzip2", "PK\x03\x04": "zip"}

func frameImage(form string, image *os.File, to io.Writer) error {
	info, err := image.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, 8)
	if _, err := image.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	}
	var raw io.Reader
	switch {
	case form == Qcow2:
		i, err := qcow2.Open(image, info.Size())
		if err != nil {
			return err
		}
		defer i.Close()
		raw = io.NewSectionReader(i, 0, i.Size())
	case form == Raw && qcow2.Is(head):
		return errors.New(`it is a qcow2 image, and the design says raw: write format: "qcow2"`)
	case form == Raw:
		for begins, name := range packed {
			if bytes.HasPrefix(head, []byte(begins)) {
				return fmt.Errorf("it is packed by %s: unpack it", name)
			}
		}
		raw = io.NewSectionReader(image, 0, info.Size())
	default:
		return fmt.Errorf("its form is %q, and %q and %q are known", form, Raw, Qcow2)
	}
	_, err = frames.Write(to, raw, frames.MaxImage)
	return err
}
