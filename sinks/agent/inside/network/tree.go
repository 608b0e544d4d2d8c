package network

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// trees are the managers' configuration folders.
var trees = []string{
	"/etc/systemd/network", "/etc/netplan", "/etc/NetworkManager/system-connections", "/etc/network", "/etc/sysconfig/network-scripts",
}

// These bounds apply to the copies of the trees.
const (
	maxTreeFiles = 4000
	maxTreeBytes = 16 << 20
)

// place is our path of a file of the system. It stays inside the root, whatever links its folders are.
func place(h *inside.Host, path string) (string, error) {
	real := h.Path(path)
	if h.Root == "/" {
		return real, nil
	}
	root, err := filepath.EvalSymlinks(h.Root)
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(real) // the nearest existing folder
	for !exists(folder) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
	}
	at, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", err
	}
	if at != root && !strings.HasPrefix(at, root+"/") {
		return "", &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s leads out of the system to %s", filepath.Dir(path), at)}
	}
	return real, nil
}

// readFile reads a file, or the target of a symbolic link.
func readFile(h *inside.Host, path string) ([]byte, fs.FileMode, error) {
	at, err := place(h, path)
	if err != nil {
		return nil, 0, err
	}
	info, err := os.Lstat(at)
	switch {
	case err != nil:
		return nil, 0, err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(at)
		return []byte(to), fs.ModeSymlink, err
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is neither a file nor a symbolic link", path)
	case info.Size() > maxTreeBytes:
		return nil, 0, fmt.Errorf("%s has %d bytes, which is too large for a configuration", path, info.Size())
	}
	f, err := os.Open(at)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTreeBytes))
	return text, info.Mode().Perm(), err
}

// writeFile writes a file, or a symbolic link if the mode says so.
func writeFile(h *inside.Host, path string, content []byte, mode fs.FileMode) error {
	at, err := place(h, path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(at), folderMode(path)); err != nil {
		return err
	}
	if mode&fs.ModeSymlink == 0 {
		_, missing := os.Lstat(at)
		if err := inside.WriteFile(at, content, mode); err != nil || missing == nil {
			return err
		}
		return h.Label(path)
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(string(content), at); err != nil {
		return err
	}
	if err := h.Label(path); err != nil {
		return err
	}
	return inside.SyncFolder(filepath.Dir(at))
}

// folderMode is the mode of a folder that we create for a file. Only root may read our own folder.
func folderMode(path string) fs.FileMode {
	if strings.HasPrefix(path, inside.Folder) {
		return 0o700
	}
	return 0o755
}

func removeFile(h *inside.Host, path string) error {
	at, err := place(h, path)
	if err != nil {
		return err
	}
	if err := os.Remove(at); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return inside.SyncFolder(filepath.Dir(at))
}

// saveTrees copies the configuration of all managers and some more files into a folder. The folder is complete or
// does not exist.
func saveTrees(h *inside.Host, folder string, more []string) error {
	making := folder + ".new"
	if err := os.RemoveAll(h.Path(making)); err != nil {
		return err
	}
	if err := os.MkdirAll(h.Path(making), 0o700); err != nil {
		return err
	}
	paths, err := treeFiles(h)
	if err != nil {
		return err
	}
	size := 0
	for _, path := range append(paths, more...) {
		text, mode, err := readFile(h, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if size += len(text); size > maxTreeBytes {
			return fmt.Errorf("the network's configuration has more than %d bytes, which is too much to save", maxTreeBytes)
		}
		if err := writeFile(h, making+path, text, mode); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(h.Path(folder)); err != nil {
		return err
	}
	if err := os.Rename(h.Path(making), h.Path(folder)); err != nil {
		return err
	}
	return inside.SyncFolder(h.Path(inside.Folder))
}

// treeFiles are the files and links in the managers' trees.
func treeFiles(h *inside.Host) ([]string, error) {
	var paths []string
	for _, tree := range trees {
		err := filepath.WalkDir(h.Path(tree), func(at string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0:
				inRoot, err := filepath.Rel(h.Root, at)
				if err != nil {
					return err
				}
				paths = append(paths, "/"+inRoot)
			}
			if len(paths) > maxTreeFiles {
				return fmt.Errorf("%s has more than %d files, which is too much to save", tree, maxTreeFiles)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return paths, nil
}
