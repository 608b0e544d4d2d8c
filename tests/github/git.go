package github

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// environment is git's own, without the host's and its user's settings.
var environment = []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}

// git runs the git program in the repository.
func (r *Repository) git(args ...string) (string, error) { return r.gitWith(nil, args...) }

func (r *Repository) gitWith(input []byte, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.dir}, args...)...)
	cmd.Env = append(slices.Clone(environment),
		"GIT_AUTHOR_NAME=GitHub", "GIT_AUTHOR_EMAIL=noreply@github.invalid", "GIT_COMMITTER_NAME=GitHub", "GIT_COMMITTER_EMAIL=noreply@github.invalid",
		fmt.Sprintf("GIT_AUTHOR_DATE=%d +0000", r.s.now().Unix()), fmt.Sprintf("GIT_COMMITTER_DATE=%d +0000", r.s.now().Unix()))
	cmd.Stdin = bytes.NewReader(input)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, complaint.Bytes())
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// must is git where a failure is a mistake of the test, or of the double.
func (r *Repository) must(args ...string) string {
	out, err := r.git(args...)
	if err != nil {
		panic("github double: " + r.fullName() + ": " + err.Error())
	}
	return out
}

// initialize makes the bare repository. As at GitHub, any object can be
// fetched by its id, and nobody pushes to refs/pull.
func (r *Repository) initialize() {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		panic(err)
	}
	r.must("init", "-q", "--bare", "-b", "main")
	for _, setting := range []string{
		"http.receivepack=true", "receive.hideRefs=refs/pull", "transfer.hideRefs=refs/double", "receive.autogc=false", "gc.auto=0", "core.fsync=none",
		"uploadpack.allowAnySHA1InWant=true", "uploadpack.allowFilter=true",
	} {
		name, value, _ := strings.Cut(setting, "=")
		r.must("config", name, value)
	}
}

// Files are a commit's changes: contents by path. An empty one removes the
// file.
type Files map[string]string

// write makes a commit on top of another, or of none, and returns its id.
func (r *Repository) write(parent, author, message string, files Files) string {
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/double/written\ncommitter %s <%s@users.invalid> %d +0000\n", author, author, r.s.now().Unix())
	fmt.Fprintf(&in, "data %d\n%s\n", len(message), message)
	if parent != "" {
		fmt.Fprintf(&in, "from %s\n", parent)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if content := files[path]; content != "" {
			fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", quoted(path), len(content), content)
			continue
		}
		fmt.Fprintf(&in, "D %s\n", quoted(path))
	}
	if _, err := r.gitWith(in.Bytes(), "fast-import", "--quiet", "--force"); err != nil {
		panic("github double: " + err.Error())
	}
	return r.must("rev-parse", "refs/double/written")
}

// quoted is a path as fast-import reads it, whatever is in it.
func quoted(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// refs are the branches and tags, and where they are.
func (r *Repository) refs() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(r.must("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags")) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = id
	}
	return all
}

// commitOf is the commit that a name stands for, empty for none.
func (r *Repository) commitOf(name string) string {
	if strings.HasPrefix(name, "-") {
		return ""
	}
	id, err := r.git("rev-parse", "--verify", "--quiet", name+"^{commit}")
	if err != nil {
		return ""
	}
	return id
}

func (r *Repository) ancestor(old, new string) bool {
	_, err := r.git("merge-base", "--is-ancestor", old, new)
	return err == nil
}

// merge is the tree that merging two commits gives, empty when they conflict.
func (r *Repository) merge(base, head string) string {
	out, err := r.git("merge-tree", "--write-tree", "--name-only", base, head)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return ""
	}
	if err != nil {
		panic("github double: " + err.Error())
	}
	return out
}
