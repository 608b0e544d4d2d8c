package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/frames"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// write has the agent's code put the image of a disk into a file, which stands for the disk,
// and `zstd -dc | sha256sum` read the same bytes, in turn. The image has the files of this
// system. Ours is all that the agent does with it: it reads the image whole and holds it to its
// digest, keeps it in memory, unpacks each frame after its digest was compared, writes it,
// syncs, and holds what it reads again to the digest of the disk. The other writes nothing.
func write(quick bool) ([]string, error) {
	size, rounds := int64(1<<30), 3
	if quick {
		size, rounds = 128<<20, 1
	}
	dir, err := os.MkdirTemp("", "bench-install-write-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "image")
	made, err := writeFrames(file, size)
	if err != nil {
		return nil, err
	}
	rig.Progress("write: an image of %d MB in %d MB of frames", size/1e6, made.Bytes/1e6)
	var cpu [2][]float64
	for range rounds {
		ours := own("write", file, hex.EncodeToString(made.SHA256[:]), filepath.Join(dir, "disk"))
		took, _, err := spent(ours...)
		if err != nil {
			return nil, err
		}
		cpu[0] = append(cpu[0], perGiB(took, size))
		took, said, err := spent("sh", "-c", `zstd -dc "$1" | sha256sum`, "sh", file)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(said, hex.EncodeToString(made.List.SHA256[:])) {
			return nil, fmt.Errorf("sha256sum says %q of the image, and it has the SHA-256 %x", said, made.List.SHA256)
		}
		cpu[1] = append(cpu[1], perGiB(took, size))
		rig.Progress("write: slipway %.2f s of CPU a GiB, zstd and sha256sum %.2f s", cpu[0][len(cpu[0])-1], cpu[1][len(cpu[1])-1])
	}
	return []string{rig.Figure("install/write-cpu-per-gib", rig.Median(cpu[0])/rig.Median(cpu[1]), "ratio")}, nil
}

func perGiB(cpu time.Duration, size int64) float64 { return cpu.Seconds() / float64(size) * (1 << 30) }

// spent is the CPU time of a program and of those that it starts, and what it prints.
func spent(line ...string) (cpu time.Duration, said string, err error) {
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, "", fmt.Errorf("%s: %w", strings.Join(line, " "), err)
	}
	user, system := cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime()
	rig.Progress("write: %s: %.2f s, of which %.2f s in the kernel", filepath.Base(line[0]), (user + system).Seconds(), system.Seconds())
	return user + system, string(out), nil
}

// writeFrames makes an image of files of this system in frames.
func writeFrames(file string, size int64) (frames.Written, error) {
	to, err := os.Create(file)
	if err != nil {
		return frames.Written{}, err
	}
	in, out := io.Pipe()
	go func() { out.CloseWithError(content(out, size)) }()
	made, err := frames.Write(to, in, size)
	in.Close()
	return made, errors.Join(err, to.Close())
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// content writes so many bytes of the files of this system.
func content(to io.Writer, size int64) error {
	for _, folder := range []string{"/usr/bin", "/usr/lib", "/usr/share"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := io.Copy(to, io.LimitReader(f, size))
			if size -= n; err == nil && size == 0 {
				err = errEnough
			}
			return err
		})
		if err == errEnough {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("this system has %d bytes too few to make an image of", size)
}

// writeImage writes the image of a disk as the agent does: all of it but its ends, and then
// these. (The partitions of a real image say where its ends are.)
func writeImage(args []string) error {
	if len(args) != 3 {
		return errors.New("the file of an image, its digest and a disk are needed")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := image.Check(ctx, fromFile{file}, image.Image{Kind: image.Disk, SHA256: args[1], Bytes: info.Size()}, image.Options{Memory: 8 << 30, Room: 1 << 40})
	if err != nil {
		return err
	}
	defer c.Close()
	disk, err := os.Create(args[2])
	if err != nil {
		return err
	}
	defer disk.Close()
	if err := disk.Truncate(c.Unpacked); err != nil {
		return err
	}
	const table, copyOfTable = 1 << 20, 33 * 512 // of a GPT
	put, err := c.Write(ctx, disk, c.Unpacked, table, c.Unpacked-copyOfTable)
	if err != nil {
		return err
	}
	if _, err := disk.WriteAt(put.Tail, c.Unpacked-int64(len(put.Tail))); err != nil {
		return err
	}
	if _, err := disk.WriteAt(put.Head, 0); err != nil {
		return err
	}
	return disk.Sync()
}

// fromFile is an image in a file.
type fromFile struct{ *os.File }

// Open implements image.Source.
func (f fromFile) Open(_ context.Context, from int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(f.File, from, 1<<62)), nil
}
