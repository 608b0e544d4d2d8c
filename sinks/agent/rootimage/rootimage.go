// Package rootimage builds images of root file systems, which the agent unpacks onto a machine's disks. It uses
// mmdebstrap(1) and Debian packages.
package rootimage

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Options say what to build, and where.
type Options struct {
	// Name starts the file's name.
	Name   string
	Recipe Recipe
	// Arch is Debian's name of the architecture; empty means this computer's.
	Arch string
	// Out is the output folder.
	Out string
	// Epoch bounds the times of all files in the image, so that images of the same packages are equal. The zero
	// value keeps the times.
	Epoch time.Time
	// Progress receives the current activity, and how many bytes of the image's archive were made. The total is
	// unknown. It may be nil.
	Progress func(what string, have, of int64)
}

// Built describes a built image.
type Built struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Unpacked is the size of its files in bytes.
	Unpacked int64     `json:"unpacked"`
	Suite    string    `json:"suite"`
	Arch     string    `json:"arch"`
	Packages []Package `json:"packages"`
}

// Package is a package that is installed in the image.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Build builds an image. It replaces an image of the same name after the new one is complete.
func Build(ctx context.Context, o Options) (*Built, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	r := o.Recipe.whole(o.Arch)
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return nil, errors.New("the program mmdebstrap is not installed, and it makes the image: install the package mmdebstrap")
	}
	work, err := os.MkdirTemp("", "slipway-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	args, err := arguments(work, r, o.Arch)
	if err != nil {
		return nil, err
	}
	out, err := os.CreateTemp(o.Out, "."+o.Name+"-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	b := &Built{Path: filepath.Join(o.Out, o.Name+"-"+o.Arch+".tar.zst"), Suite: r.Suite, Arch: o.Arch}
	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	if !o.Epoch.IsZero() {
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(o.Epoch.Unix(), 10))
	}
	// On SIGTERM, mmdebstrap unmounts and removes what it has made.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := b.write(cmd, out, o.Progress); err != nil {
		return nil, err
	}
	if err := errors.Join(out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return nil, err
	}
	return b, os.Rename(out.Name(), b.Path)
}

// tidy runs last in each new system. This computer's name, name servers and apt settings must not stay in the
// image, and each machine makes its own keys.
const tidy = `rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap" "$1/etc/hostname" "$1/etc/.resolv.conf.systemd-resolved.bak" "$1"/etc/ssh/ssh_host_*
if [ -e "$1/lib/systemd/system/systemd-networkd.service" ] && ! [ -e "$1/usr/sbin/ifup" ]; then
	chroot "$1" systemctl --quiet enable systemd-networkd.service
fi
`

// arguments are the arguments of mmdebstrap. The files that they name are below work.
func arguments(work string, r Recipe, arch string) ([]string, error) {
	var script strings.Builder
	script.WriteString("#!/bin/sh\nset -eu\n")
	for _, run := range r.Run {
		fmt.Fprintf(&script, "chroot \"$1\" /bin/sh -euc %s\n", quoted(run))
	}
	script.WriteString(tidy)
	fetch, err := fetching()
	files := map[string]string{"sources": strings.Join(r.Sources, "\n") + "\n", "apt.conf": fetch, "customize": script.String()}
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(work, name), []byte(text), 0o755))
	}
	// Without root, mmdebstrap reads the files as another user.
	if err := errors.Join(err, os.Chmod(work, 0o755)); err != nil {
		return nil, err
	}
	return []string{
		"--variant=minbase", "--format=tar", "--architectures=" + arch,
		"--aptopt=" + filepath.Join(work, "apt.conf"), `--aptopt=Acquire::Languages "none"`, `--aptopt=APT::Install-Recommends "false"`,
		"--include=" + strings.Join(r.Packages, ","), "--customize-hook=" + filepath.Join(work, "customize"),
		r.Suite, "-", filepath.Join(work, "sources"),
	}, nil
}

// fetching are this computer's apt settings for downloads, such as a proxy.
func fetching() (string, error) {
	out, err := exec.Command("apt-config", "dump").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the settings of apt: %w", err)
	}
	var kept []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Acquire::") && !strings.HasPrefix(line, "Acquire::IndexTargets") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, ""), nil
}

// quoted quotes a text as one shell word.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// write runs mmdebstrap and compresses its output.
func (b *Built) write(cmd *exec.Cmd, to io.Writer, progress func(string, int64, int64)) error {
	said := &saying{progress: progress, what: "starting mmdebstrap"}
	cmd.Stderr = said
	made, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	sum := sha256.New()
	packed := &counted{to: io.MultiWriter(to, sum)}
	z, err := zstd.NewWriter(packed, zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	read := b.read(io.TeeReader(made, &counted{to: z, each: said.made}))
	if read != nil {
		_ = cmd.Cancel() // it would wait for a reader
		_, _ = io.Copy(io.Discard, made)
	}
	ended := cmd.Wait()
	if why := said.why(); ended != nil && read == nil || why != "" && ended != nil {
		return fmt.Errorf("mmdebstrap failed (%w): %s", ended, why)
	}
	if err := errors.Join(read, z.Close()); err != nil {
		return err
	}
	b.Bytes, b.SHA256 = packed.n, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// maxStatus bounds a system's list of packages, in bytes.
const maxStatus = 64 << 20

// read reads an image's archive to its end, including dpkg's list of its packages.
func (b *Built) read(r io.Reader) error {
	buffered := bufio.NewReaderSize(r, 1<<20)
	t := tar.NewReader(buffered)
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read what mmdebstrap made: %w", err)
		}
		b.Unpacked += h.Size
		if strings.TrimPrefix(h.Name, "./") == "var/lib/dpkg/status" {
			text, err := io.ReadAll(io.LimitReader(t, maxStatus))
			if err != nil {
				return fmt.Errorf("read what mmdebstrap made: %w", err)
			}
			b.Packages = installed(text)
		}
	}
	if _, err := io.Copy(io.Discard, buffered); err != nil { // the final padding is part of the image
		return fmt.Errorf("read what mmdebstrap made: %w", err)
	}
	if len(b.Packages) == 0 {
		return errors.New("mmdebstrap made a system without packages")
	}
	return nil
}

// installed are the packages of a file in the format of /var/lib/dpkg/status.
func installed(status []byte) (all []Package) {
	for stanza := range bytes.SplitSeq(status, []byte("\n\n")) {
		var p Package
		is := false
		for line := range bytes.Lines(stanza) {
			name, value, _ := strings.Cut(strings.TrimRight(string(line), "\n"), ": ")
			switch name {
			case "Package":
				p.Name = value
			case "Version":
				p.Version = value
			case "Status":
				is = value == "install ok installed" || value == "hold ok installed"
			}
		}
		if is {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// counted counts the bytes written.
type counted struct {
	to   io.Writer
	each func(int64) // receives the count so far
	n    int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	if c.each != nil {
		c.each(c.n)
	}
	return n, err
}
