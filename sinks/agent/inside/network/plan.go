package network

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// write is one file to write. Without content the file is removed.
type write struct {
	path    string
	content []byte
	mode    fs.FileMode
}

// plan is what must be done so that all interfaces match the request.
type plan struct {
	manager       string
	before, after links
	all           links // after, with members that have no other settings
	name          string
	writes        []write // those that change something
	aside         []string
	// stops and starts are units of other managers.
	stops, starts []string
}

// cloudFile keeps cloud-init from writing the network configuration again.
const cloudFile = "/etc/cloud/cloud.cfg.d/99-slipway-network.cfg"

// plan derives the writes from the request and the files on the disk.
func (f *Facet) plan(h *inside.Host, items []item.Item, remove []string) (*plan, error) {
	p := &plan{manager: Manager(h)}
	var err error
	if p.before, p.after, err = asked(h, items, remove); err != nil {
		return nil, err
	}
	if err := f.tables.resolve(h, p.after); err != nil {
		return nil, err
	}
	if p.manager == "" {
		return nil, &wire.Error{Class: wire.Refused, Text: "this system has none of systemd-networkd, netplan, NetworkManager and ifupdown enabled; enable one of them"}
	}
	p.leaveOut(h)
	p.name, p.all = digest(p.manager, p.after), p.after.complete()
	files := render(p.manager, p.after)
	if len(p.after) > 0 && exists(h.Path("/etc/cloud/cloud.cfg.d")) {
		files[cloudFile] = file{header + "network: {config: disabled}\n", 0o644}
	}
	foreign, err := f.foreign(h, p)
	if err != nil {
		return nil, err
	}
	for _, w := range foreign {
		p.add(h, w)
	}
	if err := p.disable(h); err != nil {
		return nil, err
	}
	if err := p.names(h); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		p.add(h, write{path, []byte(files[path].text), fs.FileMode(files[path].mode)})
	}
	for _, path := range ourFiles(h) {
		if _, stays := files[path]; !stays {
			p.add(h, write{path: path})
		}
	}
	return p, nil
}

// add keeps a write if it changes something.
func (p *plan) add(h *inside.Host, w write) {
	now, mode, err := readFile(h, w.path)
	gone := errors.Is(err, fs.ErrNotExist)
	if w.content == nil && gone || err == nil && w.content != nil && string(now) == string(w.content) && mode == w.mode {
		return
	}
	p.writes = append(p.writes, w)
}

// ourFiles are the existing files with our names.
func ourFiles(h *inside.Host) []string {
	var paths []string
	for _, pattern := range []string{
		networkdFolder + "10-slipway-*", netplanFile, keyfileFolder + "slipway-*.nmconnection", ifupdownFile, cloudFile,
	} {
		found, _ := filepath.Glob(h.Path(pattern)) // the patterns are constant
		for _, at := range found {
			if inRoot, err := filepath.Rel(h.Root, at); err == nil {
				paths = append(paths, "/"+inRoot)
			}
		}
	}
	return paths
}

// asideFolder holds foreign files that would also set up our interfaces, under their paths.
const asideFolder = inside.Folder + "/network-aside"

// foreign moves foreign files that set up our interfaces aside, and restores those that no longer do.
func (f *Facet) foreign(h *inside.Host, p *plan) ([]write, error) {
	if p.manager == Ifupdown {
		return foreignStanzas(h, p)
	}
	var writes []write
	present, err := candidates(h, p.manager)
	if err != nil {
		return nil, err
	}
	others := otherInterfaces(h, p.all)
	for _, path := range present {
		text, mode, err := readFile(h, path)
		if err != nil {
			return nil, err
		}
		conflict, err := conflicts(path, string(text), p.manager, p.all, others)
		if err != nil {
			return nil, err
		}
		if conflict {
			p.aside = append(p.aside, path)
			writes = append(writes, write{asideFolder + path, text, mode}, write{path: path})
		}
	}
	back, err := fromAside(h)
	if err != nil {
		return nil, err
	}
	for _, path := range back {
		if slices.Contains(present, path) { // somebody has written a new one
			continue
		}
		text, mode, err := readFile(h, asideFolder+path)
		if err != nil {
			return nil, err
		}
		if conflict, err := conflicts(path, string(text), p.manager, p.all, nil); err == nil && !conflict {
			writes = append(writes, write{path, text, mode}, write{path: asideFolder + path})
		}
	}
	return writes, nil
}

// candidates are the foreign files that a manager reads.
func candidates(h *inside.Host, manager string) ([]string, error) {
	patterns := map[string][]string{
		Networkd:       {networkdFolder + "*.network", networkdFolder + "*.netdev", networkdFolder + "*.link"},
		Netplan:        {"/etc/netplan/*.yaml"},
		NetworkManager: {keyfileFolder + "*", "/etc/sysconfig/network-scripts/ifcfg-*"},
	}[manager]
	ours := ourFiles(h)
	var paths []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(h.Path(pattern))
		if err != nil {
			return nil, err
		}
		for _, at := range found {
			inRoot, err := filepath.Rel(h.Root, at)
			if err != nil {
				return nil, err
			}
			info, err := os.Lstat(at)
			if path := "/" + inRoot; err == nil && info.Mode().IsRegular() && !slices.Contains(ours, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

func fromAside(h *inside.Host) ([]string, error) {
	var paths []string
	folder := h.Path(asideFolder)
	err := filepath.WalkDir(folder, func(at string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".slipway-") {
			paths = append(paths, strings.TrimPrefix(at, folder))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return paths, err
}

// otherInterfaces are the system's interfaces that are not in the design.
func otherInterfaces(h *inside.Host, all links) []string {
	entries, err := os.ReadDir(h.Path("/sys/class/net"))
	if err != nil {
		return nil
	}
	var others []string
	for _, e := range entries {
		if _, ours := all[e.Name()]; !ours && e.Name() != "lo" {
			others = append(others, e.Name())
		}
	}
	return others
}
