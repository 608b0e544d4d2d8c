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

// The forms of fetched whole-disk images.
const (
	Raw   = "raw"
	Qcow2 = "qcow2"
)

// Limits of a process that converts an image to frames.
const (
	framedWithin   = 2 * time.Hour
	framerMemory   = 1 << 30
	mostComplaints = 4096 // bytes of its error output
)

// Framer is the command of a process that converts a disk image to frames, the program that calls
// FrameImage. The form is added as the last argument. The process gets an empty environment and
// three open files: the image to read, a pipe for the frames, and one for errors. So a malicious
// image cannot harm the daemon.
type Framer []string

// run converts an image to frames. Its error wraps ErrRefused if the image is at fault.
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
		cancel() // nobody reads the rest
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

// complaints keeps the beginning of a process's error output.
type complaints struct{ bytes.Buffer }

func (c *complaints) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), max(0, mostComplaints-c.Len()))])
	return len(p), nil
}

// refusedCode is the exit code if the image is at fault.
const refusedCode = 65

// FrameImage is the process of a Framer. It converts an image of the given form to frames, writes
// errors to complain, and returns the exit code.
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

// boundFramer limits this process: it opens nothing, writes no file and takes little memory. If
// memory runs out, the kernel ends it before others.
func boundFramer() error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	debug.SetMemoryLimit(framerMemory / 4 * 3)
	return errors.Join(
		syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: framerMemory, Max: framerMemory}),
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}),
		confine.Self())
}

// packed are the first bytes of files that somebody may mistake for an image.
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
