// Package ramdisk builds the ramdisk in which the agent runs: a unified kernel image, an archive of the programs
// that the agent needs to install a system, and a medium with both. It uses Debian packages, needs no root and runs
// no program from them. The same packages and agent produce the same bytes.
package ramdisk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// maxImage bounds the unified kernel image, in bytes, because firmware loads all of it.
const maxImage = 32 << 20

// defaultCommandLine makes the kernel write to the screen and the first serial port, and restart a minute after a
// panic.
const defaultCommandLine = "console=ttyS0,115200 console=tty0 loglevel=4 panic=60"

// These are the names of the built files.
const (
	ImageName  = "slipway-ramdisk-amd64.efi"
	mediumName = "slipway-ramdisk-amd64.iso"
	ToolsName  = "slipway-tools-amd64.tar.zst"
)

// Options say what a ramdisk is built from.
type Options struct {
	// Debs is a folder with the packages. If it is empty, apt downloads them.
	Debs string
	// Agent is the file of the program that runs in the ramdisk.
	Agent string
	// Append is added to defaultCommandLine. See docs/ramdisk.md for what the agent reads.
	Append string
	// Out is the output folder.
	Out string
	// Progress receives the current activity, and the bytes done out of the total; both are 0 if unknown. It may be
	// nil.
	Progress func(what string, have, all int64)
}

// File is a built file.
type File struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Built describes a built ramdisk and its parts.
type Built struct {
	Kernel      string    `json:"kernel"` // its release
	Modules     int       `json:"modules"`
	CommandLine string    `json:"commandLine"`
	Packages    []Package `json:"packages"`
	// Agent is the digest of the agent.
	Agent string `json:"agent"`
	// Image is the unified kernel image, Tools its archive of programs for disks, and Medium the ISO with both.
	Image  File  `json:"image"`
	Tools  Tools `json:"tools"`
	Medium File  `json:"medium"`
}

// Tools is an archive of programs for disks.
type Tools struct {
	File
	Unpacked int64 `json:"unpacked"` // size of its files in bytes
	// Programs are its programs. Packages are the sources of the programs and their libraries.
	Programs []string  `json:"programs"`
	Packages []Package `json:"packages"`
}

// Build builds a ramdisk. It replaces the files of an earlier one after everything is built.
func Build(ctx context.Context, o Options) (*Built, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if strings.ContainsAny(o.Append, "\n\x00") || len(o.Append) > 1024 {
		return nil, errors.New("the kernel's command line is one line of at most 1024 bytes")
	}
	agent, err := readAgent(o.Agent)
	if err != nil {
		return nil, err
	}
	debs := o.Debs
	if debs == "" {
		folder, err := os.MkdirTemp("", "slipway-ramdisk-")
		if err != nil {
			return nil, inWords(err)
		}
		defer os.RemoveAll(folder)
		o.Progress("apt downloads the packages", 0, 0)
		if err := fetch(ctx, folder); err != nil {
			return nil, inWords(err)
		}
		debs = folder
	}
	p, err := inFolder(debs)
	if err != nil {
		return nil, inWords(err)
	}
	defer p.Close()
	b := &Built{CommandLine: strings.TrimSpace(defaultCommandLine + " " + o.Append), Agent: sum(agent)}
	for _, d := range []*deb{p.kernel, p.stub} {
		is, err := told(d)
		if err != nil {
			return nil, err
		}
		b.Packages = append(b.Packages, is)
	}
	more := &pool{folder: debs, download: o.Debs == ""}
	defer more.Close()
	tools, err := makeTools(ctx, more, o.Progress, b)
	if err != nil {
		return nil, inWords(err)
	}
	b.Tools.File = File{filepath.Join(o.Out, ToolsName), int64(len(tools)), sum(tools)}
	image, err := makeImage(ctx, o, p, agent, b)
	if err != nil {
		return nil, err
	}
	volume, at, err := fatVolume("SLIPWAY", "EFI/BOOT/BOOTX64.EFI", image)
	if err != nil {
		return nil, err
	}
	medium := bootMedium("SLIPWAY", volume, at, len(image), tools)
	if err := write(o.Out, map[string][]byte{ImageName: image, ToolsName: tools, mediumName: medium}); err != nil {
		return nil, inWords(err)
	}
	b.Image = File{filepath.Join(o.Out, ImageName), int64(len(image)), sum(image)}
	b.Medium = File{filepath.Join(o.Out, mediumName), int64(len(medium)), sum(medium)}
	return b, nil
}

// readAgent reads the agent, which must be a program for the architecture that needs no libraries.
func readAgent(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("there is no agent to put into the ramdisk: %w; install the package slipway as a whole, or name the folder with slipway-agent-linux-amd64 with --agents", err)
	}
	e, err := elf.NewFile(bytes.NewReader(content))
	if err != nil || e.Machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("%s is not a program for %s", file, architecture)
	}
	for _, s := range e.Progs {
		if s.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s needs libraries, and there are none in the ramdisk: build it with CGO_ENABLED=0", file)
		}
	}
	return content, nil
}

// makeImage builds the unified kernel image, and records its contents in b.
func makeImage(ctx context.Context, o Options, p packages, agent []byte, b *Built) ([]byte, error) {
	stub, err := p.stubProgram()
	if err != nil {
		return nil, err
	}
	of := int64(atoi(p.kernel.fields["Installed-Size"])) << 10
	k, err := p.readKernel(ctx, func(have int64) { o.Progress("unpacks the kernel", min(have, of), of) })
	if err != nil {
		return nil, err
	}
	kept, err := chosen(k.modules)
	if err != nil {
		return nil, err
	}
	b.Kernel, b.Modules = k.release, len(kept)
	files, err := initramfs(k.release, kept, agent, wire.Tools{SHA256: b.Tools.SHA256, Bytes: b.Tools.Bytes, Unpacked: b.Tools.Unpacked})
	if err != nil {
		return nil, err
	}
	packed, err := compressed(ctx, archive(files), imageWindow, func(have, of int64) { o.Progress("packs the initramfs", have, of) })
	if err != nil {
		return nil, err
	}
	release := fmt.Sprintf("ID=slipway\nNAME=\"Slipway agent\"\nPRETTY_NAME=\"Slipway agent, Linux %s\"\nVERSION_ID=%s\n", k.release, k.release)
	image, err := withSections(stub, []section{
		{".osrel", []byte(release)}, {".cmdline", []byte(b.CommandLine)}, {".uname", []byte(k.release)}, {".linux", k.image}, {".initrd", packed},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.stub.file.Name(), err)
	}
	if len(image) > maxImage {
		return nil, fmt.Errorf("the image would have %d bytes, more than the %d that firmware is given: the kernel has %d, and %d modules with the agent %d packed",
			len(image), maxImage, len(k.image), len(kept), len(packed))
	}
	return image, nil
}

// initramfs are the files of the ramdisk. The ramdisk accepts only one archive of programs for disks.
func initramfs(release string, kept map[string]*module, agent []byte, tools wire.Tools) (map[string]entry, error) {
	of, err := json.Marshal(tools)
	if err != nil {
		return nil, err
	}
	files := map[string]entry{
		"init":          {mode: kindFile | 0o755, content: agent},
		"sbin/modprobe": {mode: kindLink | 0o777, content: []byte("/init")}, // the kernel runs it to load modules
		"dev/console":   {mode: kindDevice | 0o600, major: 5, minor: 1},
		"proc":          {mode: kindFolder | 0o755}, "sys": {mode: kindFolder | 0o755}, "run": {mode: kindFolder | 0o755}, "tmp": {mode: kindFolder | 0o1777},
		"etc": {mode: kindFolder | 0o755}, "mnt": {mode: kindFolder | 0o755}, wire.ToolsFolder[1:]: {mode: kindFolder | 0o755},
		wire.ToolsFile[1:]: {mode: kindFile | 0o644, content: of},
	}
	for _, name := range wire.ToolsLinks { // dangling until the archive is unpacked
		files[name[1:]] = entry{mode: kindLink | 0o777, content: []byte(wire.ToolsFolder + name)}
	}
	folder := "lib/modules/" + release + "/"
	for _, m := range kept {
		files[folder+m.path] = entry{mode: kindFile | 0o644, content: m.content}
	}
	for name, content := range lists(kept) {
		files[folder+name] = entry{mode: kindFile | 0o644, content: content}
	}
	return files, nil
}

func lists(kept map[string]*module) map[string][]byte {
	dep, alias, softdep := moduleLists(kept)
	return map[string][]byte{"modules.dep": dep, "modules.alias": alias, "modules.softdep": softdep}
}

// These are the windows of zstd, in bytes. Unpacking needs that much memory.
const (
	imageWindow = 32 << 20
	toolsWindow = 8 << 20
)

// compressed compresses into one zstd frame, which the kernel can unpack. A single thread produces the same bytes
// every time.
func compressed(ctx context.Context, content []byte, window int, tell func(have, of int64)) ([]byte, error) {
	const part = 1 << 20
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(content); at += part {
		tell(int64(at), int64(len(content)))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _, err := w.Write(content[at:min(at+part, len(content))]); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}

// write writes files to a folder: all of them, or none if there is not enough space.
func write(folder string, files map[string][]byte) (err error) {
	next := func(name string) string { return filepath.Join(folder, "."+name+".new") }
	defer func() {
		for name := range files {
			if err != nil {
				os.Remove(next(name))
			}
		}
	}()
	for name, content := range files {
		if err := os.WriteFile(next(name), content, 0o644); err != nil {
			return err
		}
	}
	for name := range files {
		if err := os.Rename(next(name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

func atoi(text string) (n int) {
	fmt.Sscan(text, &n) // 0 if it is not a number; only for progress
	return n
}

// inWords adds advice to file system errors.
func inWords(err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, syscall.ENOSPC) && errors.As(err, &at):
		return fmt.Errorf("there is no room for %s: a ramdisk needs about 100 MB where it is written, and as much in $TMPDIR while apt downloads: %w", at.Path, syscall.ENOSPC)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("there is no room: a ramdisk needs about 100 MB where it is written, and as much in $TMPDIR while apt downloads: %w", err)
	}
	return err
}
