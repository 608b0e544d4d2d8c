package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// entry is a file or folder of a package.
type entry struct {
	path   string // where it is installed
	from   string // the file with its content, or
	text   []byte // its content, or
	folder bool   // nothing: it is an empty folder
	mode   fs.FileMode
	owner  int  // the id of its user and group
	config bool // it is the administrator's: an upgrade leaves it as it is
}

// content is a file's.
func (e entry) content() ([]byte, error) {
	if e.from == "" {
		return e.text, nil
	}
	return os.ReadFile(e.from)
}

// sources are the files that are in the repository as they are installed.
var sources = []entry{
	{path: "/usr/lib/systemd/system/slipway.service", from: "slipway.service", mode: 0o644},
	{path: "/usr/lib/systemd/system/slipway-backup.service", from: "slipway-backup.service", mode: 0o644},
	{path: "/usr/lib/systemd/system/slipway-backup.timer", from: "slipway-backup.timer", mode: 0o644},
	{path: "/usr/lib/sysusers.d/slipway.conf", from: "sysusers.conf", mode: 0o644},
	{path: "/usr/lib/tmpfiles.d/slipway.conf", from: "tmpfiles.conf", mode: 0o644},
	{path: "/etc/slipway", folder: true, mode: 0o755},
	{path: "/etc/slipway/slipway.env", from: "slipway.env", mode: 0o644, config: true},
	{path: "/etc/slipway/known_hosts", from: "known_hosts", mode: 0o644, config: true},
	{path: "/etc/slipway/credentials", folder: true, mode: 0o700},
	{path: "/etc/slipway/programs.d", folder: true, mode: 0o755},
	{path: "/usr/share/slipway/prometheus/slipway.rules.yml", from: "prometheus/slipway.rules.yml", mode: 0o644},
	{path: "/usr/share/slipway/grafana/slipway.json", from: "grafana/slipway.json", mode: 0o644},
	{path: "/usr/share/doc/slipway/copyright", from: "../LICENSE", mode: 0o644},
	{path: "/usr/share/doc/slipway/changelog.md", from: "../docs/changelog.md", mode: 0o644},
	{path: "/usr/share/doc/slipway/install.md", from: "../docs/install.md", mode: 0o644},
}

// generate asks the program for its manual pages and for what shells complete.
func generate(ctx context.Context, program, folder string) ([]entry, error) {
	// The defaults in the pages are those of an environment without variables.
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env, cmd.Stderr = []string{"PATH=/usr/bin:/bin"}, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("slipway %s: %w", strings.Join(args, " "), err)
		}
		return out, nil
	}
	if _, err := run("manual", folder); err != nil {
		return nil, err
	}
	tree := append([]entry{}, sources...)
	pages, err := filepath.Glob(filepath.Join(folder, "*.1")) // sorted
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		packed, err := gzipped(text)
		if err != nil {
			return nil, err
		}
		tree = append(tree, entry{path: path.Join("/usr/share/man/man1", filepath.Base(page)+".gz"), text: packed, mode: 0o644})
	}
	for shell, file := range map[string]string{"bash": "bash-completion/completions/slipway", "zsh": "zsh/vendor-completions/_slipway", "fish": "fish/vendor_completions.d/slipway.fish"} {
		text, err := run("completion", shell)
		if err != nil {
			return nil, err
		}
		tree = append(tree, entry{path: "/usr/share/" + file, text: text, mode: 0o644})
	}
	return tree, nil
}

// gzipped has neither a name nor a time.
func gzipped(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
