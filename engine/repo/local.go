package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Local finds a commit by any name that the git program accepts ("HEAD~1",
// "main@{yesterday}", "4f2a91c"), in the repository on disk around a folder.
// The files are those of the same folder in that commit, read directly from its
// objects. Only resolving the name needs the git program, which must be
// installed.
func Local(ctx context.Context, folder, name string) (id string, files fs.FS, err error) {
	where, err := revParse(ctx, folder, "--path-format=absolute", "--git-common-dir", "--show-prefix")
	if err != nil {
		return "", nil, fmt.Errorf("find a repository around %s: %w", folder, err)
	}
	id, err = revParse(ctx, folder, "--verify", "--end-of-options", name+"^{commit}")
	if err != nil {
		return "", nil, fmt.Errorf("find commit %q: %w", name, err)
	}
	dir, prefix, _ := strings.Cut(where, "\n")
	s := &Store{objects: filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRU(16*cache.MiByte))}
	all, err := s.Files(id)
	if err != nil {
		return "", nil, err
	}
	files, err = fs.Sub(all, path.Clean("./"+prefix))
	return id, files, err
}

// revParse runs git rev-parse; see gitrevisions(7) and git-rev-parse(1).
func revParse(ctx context.Context, folder string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", folder, "rev-parse"}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && said.Len() > 0 {
		return "", errors.New(plain(strings.TrimSpace(said.String())))
	}
	return strings.TrimSpace(string(out)), err
}
