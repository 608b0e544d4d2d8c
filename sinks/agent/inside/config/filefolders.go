package config

import (
	"path"
	"slices"
)

// readFolders collects the folders that were created for owned items.
func (w *work) readFolders() {
	w.folders = map[string]bool{}
	for _, key := range w.h.Owned.Keys(name) {
		var before fileBefore
		w.items.Load(key, &before, nil)
		for _, folder := range before.Folders {
			w.folders[folder] = true
		}
	}
}

// foldersOf lists the folders above a path that Slipway created or would create.
func (w *work) foldersOf(file string) ([]string, error) {
	folders, err := w.tree.MissingFolders(file)
	if err != nil {
		return nil, err
	}
	for folder := path.Dir(file); folder != "/"; folder = path.Dir(folder) {
		if w.folders[folder] {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	for _, folder := range folders {
		w.folders[folder] = true
	}
	return folders, nil
}
