package libvirt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// These are for a seed's medium, as cloud-init's NoCloud data source expects it.
const (
	seedLabel = "cidata"
	isoSector = 2048
	// mostSeed bounds each file of the seed, in bytes. No first boot needs more.
	mostSeed = 1 << 20
)

// seedISO is the medium with a seed: ISO 9660 with Rock Ridge, which keeps the file names. The library lays out
// files from a disk, but secrets must stay off disks. So it lays out blank files, and their contents are added
// afterwards.
func seedISO(s driver.Seed) ([]byte, error) {
	files := map[string][]byte{
		"meta-data":      []byte(s.MetaData.Reveal()),
		"user-data":      []byte(s.UserData.Reveal()),
		"network-config": []byte(s.NetworkConfig.Reveal()),
	}
	layout, err := layOut(files)
	if err != nil {
		return nil, fmt.Errorf("lay out the seed: %w", err)
	}
	for name, content := range files {
		at := bytes.Index(layout, blankFile(name))
		if at < 0 || at%isoSector != 0 || bytes.Count(layout, blankFile(name)) != 1 {
			return nil, errors.New("lay out the seed: a file is not where it should be")
		}
		space := layout[at : at+max(len(content), len(blankFile(name)))]
		for i := copy(space, content); i < len(space); i++ {
			space[i] = '\n'
		}
	}
	return layout, nil
}

// blankFile is how a file starts in the layout.
func blankFile(name string) []byte { return fmt.Appendf(nil, "%-64s", "blank "+name) }

// layOut is a file system of blank files with their final sizes.
func layOut(files map[string][]byte) ([]byte, error) {
	work, err := os.MkdirTemp("", "slipway-seed-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	for name, content := range files {
		if len(content) > mostSeed {
			return nil, refused("the %s of the seed has %d bytes, more than %d", name, len(content), mostSeed)
		}
		file := filepath.Join(work, name)
		if err := os.WriteFile(file, blankFile(name), 0o600); err != nil {
			return nil, err
		}
		if err := os.Truncate(file, int64(max(len(content), len(blankFile(name))))); err != nil {
			return nil, err
		}
	}
	var m inMemory
	disc, err := iso9660.Create(&m, 0, 0, isoSector, work)
	if err != nil {
		return nil, err
	}
	err = disc.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: seedLabel})
	return m.content, err
}

// inMemory is a disk in memory for the library.
type inMemory struct {
	content []byte
	at      int64
}

func (m *inMemory) WriteAt(p []byte, at int64) (int, error) {
	if end := at + int64(len(p)); end > int64(len(m.content)) {
		m.content = append(m.content, make([]byte, end-int64(len(m.content)))...)
	}
	return copy(m.content[at:], p), nil
}

func (m *inMemory) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(m.content).ReadAt(p, at)
}

func (m *inMemory) Read(p []byte) (int, error) {
	n, err := m.ReadAt(p, m.at)
	m.at += int64(n)
	return n, err
}

func (m *inMemory) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += m.at
	case io.SeekEnd:
		offset += int64(len(m.content))
	}
	m.at = offset
	return m.at, nil
}

func (m *inMemory) Stat() (fs.FileInfo, error)              { return nil, errors.ErrUnsupported }
func (m *inMemory) Sys() (*os.File, error)                  { return nil, backend.ErrNotSuitable }
func (m *inMemory) Writable() (backend.WritableFile, error) { return m, nil }
func (m *inMemory) Path() string                            { return "" }
func (m *inMemory) Close() error                            { return nil }
