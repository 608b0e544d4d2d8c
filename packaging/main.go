// Command packaging builds what Slipway is installed from: packages for Debian
// and for Red Hat, an archive and an OCI image, for two architectures. Equal
// sources, toolchain and times give equal octets.
//
//	go run -C packaging . --out ../bin
//
// The time in all files is SOURCE_DATE_EPOCH, or that of the commit.
package main

import (
	"context"
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	out := flag.String("out", "../bin", "folder for what is built")
	arch := flag.String("arch", "amd64,arm64", "architectures, as GOARCH names them")
	flag.Parse()
	if err := build(ctx, *out, strings.Split(*arch, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// release is what all packages of a build share.
type release struct {
	version string // as packages compare it: 1.2.0, 1.2.0~rc.1, or 0.0.0~DATE.COMMIT without a tag
	commit  string // empty where the sources are in no repository
	time    time.Time
}

// build makes everything for some architectures.
func build(ctx context.Context, out string, architectures []string) error {
	work, err := os.MkdirTemp("", "packaging-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	when, err := sourceDate(ctx)
	if err != nil {
		return err
	}
	program, err := compile(ctx, work, runtime.GOARCH)
	if err != nil {
		return err
	}
	shared, err := generate(ctx, program, filepath.Join(work, "generated"))
	if err != nil {
		return err
	}
	helpers, err := compileHelpers(ctx, work)
	if err != nil {
		return err
	}
	shared = append(shared, helpers...)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var images []image
	var r release
	for _, arch := range architectures {
		if program, err = compile(ctx, work, arch); err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		r = releaseOf(info, when)
		bom, err := billOfMaterials(program, info, r)
		if err != nil {
			return err
		}
		loader, err := compileLoader(ctx, work, arch)
		if err != nil {
			return err
		}
		tree := slices.Concat(shared, []entry{{path: "/usr/bin/slipway", from: program, mode: 0o755}, loader, {path: "/usr/share/doc/slipway/sbom.cdx.json", text: bom, mode: 0o644}})
		if err := writePackages(out, arch, r, tree); err != nil {
			return err
		}
		if err := writeArchive(filepath.Join(out, fmt.Sprintf("slipway_%s_linux_%s.tar.gz", r.version, arch)), r, tree); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, fmt.Sprintf("slipway_%s_%s.cdx.json", r.version, arch)), bom, 0o644); err != nil {
			return err
		}
		i, err := newImage(arch, program, helpers, r)
		if err != nil {
			return err
		}
		images = append(images, i)
	}
	return writeLayout(filepath.Join(out, fmt.Sprintf("slipway_%s_oci.tar", r.version)), r, images)
}

// helperArchitectures are those of the machines that Slipway works inside, whatever
// it runs on itself.
var helperArchitectures = []string{"amd64", "arm64"}

// compileHelpers builds what the daemon brings to machines.
func compileHelpers(ctx context.Context, work string) ([]entry, error) {
	var tree []entry
	for _, arch := range helperArchitectures {
		name := "slipway-helper-linux-" + arch
		path := filepath.Join(work, name)
		if err := goBuild(ctx, path, "slipway-helper", arch, "-buildvcs=false"); err != nil {
			return nil, err
		}
		tree = append(tree, entry{path: "/usr/lib/slipway/agents/" + name, from: path, mode: 0o755})
	}
	const agent = "slipway-agent-linux-amd64" // ramdisks are made for amd64 alone
	path := filepath.Join(work, agent)
	if err := goBuild(ctx, path, "slipway-agent", "amd64", "-buildvcs=false"); err != nil {
		return nil, err
	}
	return append(tree, entry{path: "/usr/lib/slipway/agents/" + agent, from: path, mode: 0o755}), nil
}

// compileLoader builds the program that loads the modules of tokens. The image does not have it, as it needs a C library.
func compileLoader(ctx context.Context, work, arch string) (entry, error) {
	const name = "slipway-pkcs11"
	path := filepath.Join(work, name+"-"+arch)
	return entry{path: "/usr/lib/slipway/" + name, from: path, mode: 0o755}, goBuild(ctx, path, name, arch, "-buildvcs=false")
}

// compile builds the program for an architecture.
func compile(ctx context.Context, work, arch string) (program string, err error) {
	program = filepath.Join(work, "slipway-"+arch)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	vcs := "-buildvcs=auto"
	if _, err := os.Stat("../.git"); err == nil {
		vcs = "-buildvcs=true"
	}
	return program, goBuild(ctx, program, "slipway", arch, vcs)
}

// goBuild builds a command. The path of the sources is in no file that is built.
func goBuild(ctx context.Context, path, command, arch, vcs string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", vcs, "-ldflags=-s -w", "-o", path, "./cmd/"+command)
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s for %s: %w", command, arch, err)
	}
	return nil
}

// sourceDate is the time that all files get.
func sourceDate(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("the time of the commit: %w: set SOURCE_DATE_EPOCH where there is no repository", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// releaseOf reads from a program what Go has noted in it.
func releaseOf(info *buildinfo.BuildInfo, when time.Time) release {
	r := release{version: packageVersion(info.Main.Version), time: when}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			r.commit = s.Value
		}
	}
	return r
}

// packageVersion is a Go version as dpkg and rpm compare it: "~" comes before
// everything, and "-" would begin a revision.
func packageVersion(v string) string {
	v, ok := strings.CutPrefix(v, "v")
	if !ok { // "(devel)"
		return "0.0.0~devel"
	}
	v, dirty := strings.CutSuffix(v, "+dirty")
	first, rest, pre := strings.Cut(v, "-")
	if pre {
		first += "~" + strings.ReplaceAll(rest, "-", ".")
	}
	if dirty {
		first += "+dirty"
	}
	return first
}
