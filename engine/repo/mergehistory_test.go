package repo_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
)

// gitFile is a file of a random history.
type gitFile struct{ mode, content string }

type gitTree map[string]gitFile

// history makes random commits, each with the files of its first parent, edited.
//
// Older versions of Git do not heed merge.renames, so that nothing here may look to
// them like a rename: no file has a line of another path, and where the sides were
// merged into each other before, no file becomes a folder. (Git moves such a file
// aside in what it merges, and follows it from there.)
type history struct {
	dice  *rand.Rand
	paths []string
	words []string
	trees []gitTree
}

var (
	apart    = []string{"site.cue", "nodes/r1.cue", "nodes/r2.cue", "data/x/y", "deep/er/d.cue", "moved.cue"}
	inTheWay = append([]string{"nodes", "data/x"}, apart...)
)

// lines is a new run of lines of a path: some are frequent, some are rare.
func (h *history) lines(path string, n int) (all []string) {
	for range n {
		switch word := path + h.words[h.dice.IntN(len(h.words))]; h.dice.IntN(12) {
		case 0:
			all = append(all, word+fmt.Sprint(h.dice.IntN(40))+"\n")
		case 1:
			all = append(all, path+"\n")
		case 2:
			all = append(all, word+"\r\n")
		default:
			all = append(all, word+"\n")
		}
	}
	return all
}

func (h *history) file(path string) gitFile {
	n := h.dice.IntN(30)
	switch h.dice.IntN(20) {
	case 0:
		n = 80 + h.dice.IntN(300)
	case 1:
		n = 0
	}
	f := gitFile{"100644", strings.Join(h.lines(path, n), "")}
	switch h.dice.IntN(40) {
	case 0:
		f = gitFile{"120000", path + fmt.Sprint(h.dice.IntN(3))}
	case 1:
		f.content = "\x00" + f.content
	case 2, 3:
		f.content = strings.ReplaceAll(f.content, "\n", "\r\n")
	case 4, 5:
		f.content = strings.TrimSuffix(f.content, "\n")
	case 6, 7:
		f.mode = "100755"
	}
	return f
}

// edit changes some lines of a file.
func (h *history) edit(path string, f gitFile) gitFile {
	if f.mode == "120000" {
		return h.file(path)
	}
	lines := strings.SplitAfter(f.content, "\n")
	for range 1 + h.dice.IntN(4) {
		at := h.dice.IntN(len(lines) + 1)
		end := min(len(lines), at+h.dice.IntN(4))
		switch h.dice.IntN(7) {
		case 0, 1:
			lines = slices.Insert(lines, at, h.lines(path, 1+h.dice.IntN(3))...)
		case 2:
			lines = slices.Delete(lines, at, end)
		case 3:
			lines = slices.Insert(lines, h.dice.IntN(len(lines)+1), slices.Clone(lines[at:end])...)
		default:
			lines = slices.Replace(lines, at, end, h.lines(path, end-at)...)
		}
	}
	f.content = strings.Join(lines, "")
	if h.dice.IntN(15) == 0 {
		f.mode = []string{"100644", "100755"}[h.dice.IntN(2)]
	}
	return f
}

// put puts a file in place of what is in its way.
func (t gitTree) put(name string, f gitFile) {
	maps.DeleteFunc(t, func(other string, _ gitFile) bool {
		return strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")
	})
	t[name] = f
}

func (h *history) change(t gitTree) gitTree {
	t = maps.Clone(t)
	for range 1 + h.dice.IntN(3) {
		names := slices.Sorted(maps.Keys(t))
		name := h.paths[h.dice.IntN(len(h.paths))]
		if len(names) > 0 && h.dice.IntN(8) > 0 {
			name = names[h.dice.IntN(len(names))]
		}
		f, there := t[name]
		switch dice := h.dice.IntN(20); {
		case !there || dice == 0:
			t.put(name, h.file(name))
		case dice == 1:
			delete(t, name)
		default:
			t[name] = h.edit(name, f)
		}
	}
	return t
}

// write writes the commits of a history for git fast-import, and returns the
// numbers of the two to be merged. Some were merged into each other before.
func (h *history) write(w *bytes.Buffer, first int) (base, head int) {
	meet := h.dice.IntN(4) == 0
	h.paths = inTheWay
	if meet {
		h.paths = apart
	}
	h.words = []string{"}", "a: {", "b", "c", "d", "e"}[:2+h.dice.IntN(5)]
	start := gitTree{}
	for range 1 + h.dice.IntN(4) {
		name := h.paths[h.dice.IntN(len(h.paths))]
		start.put(name, h.file(name))
	}
	h.trees = nil
	commit := func(t gitTree, parents ...int) int {
		n := first + len(h.trees)
		h.trees = append(h.trees, t)
		fmt.Fprintf(w, "commit refs/heads/h%d\nmark :%d\ncommitter A <a@example.org> %d +0000\ndata 0\n", n, n, 1_000_000_000+n)
		for i, p := range parents {
			fmt.Fprintf(w, "%s :%d\n", []string{"from", "merge", "merge"}[i], p)
		}
		w.WriteString("deleteall\n")
		for _, name := range slices.Sorted(maps.Keys(t)) {
			fmt.Fprintf(w, "M %s inline %s\ndata %d\n%s\n", t[name].mode, name, len(t[name].content), t[name].content)
		}
		return n
	}
	tree := func(n int) gitTree { return h.trees[n-first] }
	root := commit(start)
	sides := [2]int{root, root}
	for range h.dice.IntN(10) / 6 { // both make a change, before they part
		shared := commit(h.change(tree(root)), root)
		sides = [2]int{shared, shared}
	}
	for i := range sides {
		sides[i] = commit(h.change(tree(sides[i])), sides[i])
	}
	if h.dice.IntN(3) == 0 { // both make the same change
		seed := h.dice.Uint64()
		was := h.dice
		for i := range sides {
			h.dice = rand.New(rand.NewPCG(seed, 1))
			sides[i] = commit(h.change(tree(sides[i])), sides[i])
		}
		h.dice = was
	}
	for ; meet; meet = h.dice.IntN(3) == 0 { // they are merged into each other
		one, other := sides[0], sides[1]
		sides[0] = commit(h.mix(tree(one), tree(other)), one, other)
		sides[1] = commit(h.mix(tree(other), tree(one)), other, one)
		for i := range sides {
			sides[i] = commit(h.change(tree(sides[i])), sides[i])
		}
	}
	return sides[0], sides[1]
}

// mix is a merge as somebody may have made it: each file from one of the sides,
// some changed.
func (h *history) mix(one, other gitTree) gitTree {
	t := maps.Clone(one)
	for _, name := range slices.Sorted(maps.Keys(other)) {
		if h.dice.IntN(2) == 0 {
			t.put(name, other[name])
		}
	}
	if h.dice.IntN(2) == 0 {
		return h.change(t)
	}
	return t
}

// Whatever two sides did, with lines, files, folders and merges of each other: the
// verdict on their merge is Git's, and a clean merge has Git's files.
func TestMergesOfRandomHistoriesAreGits(t *testing.T) {
	histories, step := 300, 300
	if os.Getenv("SLIPWAY_PROVE") != "" {
		histories, step = 10_000, 1000
	}
	clean := 0
	for seed := 0; seed < histories; seed += step {
		clean += mergeHistories(t, uint64(seed), uint64(seed+step))
	}
	t.Logf("%d of %d histories merge", clean, histories)
	if clean < histories/5 || clean > histories*4/5 {
		t.Errorf("%d of %d histories merge, which proves little", clean, histories)
	}
}

func mergeHistories(t *testing.T, from, to uint64) (clean int) {
	g := repotest.InitBare(t)
	var stream, pairs bytes.Buffer
	first := 1
	for seed := from; seed < to; seed++ {
		h := &history{dice: rand.New(rand.NewPCG(seed, 16))}
		base, head := h.write(&stream, first)
		fmt.Fprintf(&pairs, "h%d h%d\n", base, head)
		first += len(h.trees)
	}
	g.GitInput(stream.String(), "fast-import", "--quiet")
	ids := map[string]string{}
	for line := range strings.Lines(g.Git("for-each-ref", "--format=%(refname:short) %(objectname)")) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		ids[name] = id
	}
	cmd := exec.Command("git", "-c", "merge.renames=false", "merge-tree", "--write-tree", "--stdin", "--name-only", "--no-messages")
	cmd.Dir, cmd.Stdin, cmd.Stderr = g.Dir, bytes.NewReader(pairs.Bytes()), os.Stderr
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git merge-tree: %v", err)
	}
	store, err := repo.OpenStore(g.Dir)
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(string(out), "\x00")
	for seed := from; seed < to; seed++ {
		line, _ := pairs.ReadString('\n')
		base, head, _ := strings.Cut(strings.TrimSpace(line), " ")
		status, tree := answers[0], answers[1]
		var files []string
		for answers = answers[2:]; answers[0] != ""; answers = answers[1:] {
			files = append(files, answers[0])
		}
		answers = answers[1:]
		m, err := store.Merge(ids[base], ids[head])
		switch {
		case err != nil:
			t.Errorf("seed %d: %v", seed, err)
		case status == "1" && (len(m.Conflicts) > 0 || m.ID != tree):
			t.Errorf("seed %d: got %q %q, git has %s (git merge-tree %s %s)", seed, m.ID, m.Conflicts, tree, base, head)
		case status != "1" && len(m.Conflicts) == 0:
			t.Errorf("seed %d: got %s, git has conflicts in %q", seed, m.ID, files)
		case status == "1":
			clean++
		}
	}
	return clean
}
