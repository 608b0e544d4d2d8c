package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// edit replaces the one place of a text in a file of the site.
func (s *stage) edit(file, old, new string) error {
	path := filepath.Join("site", file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), old); n != 1 {
		return fmt.Errorf("%s holds %q %d times", path, old, n)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644)
}

// add puts a line at the end of a file of the site.
func (s *stage) add(file, line string) error {
	path := filepath.Join("site", file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(text, "%s\n", line), 0o644)
}

// cut takes out a file's text from one mark to the next.
func (s *stage) cut(file, from, to string) error {
	text, err := os.ReadFile(filepath.Join("site", file))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), from)
	middle, _, found := strings.Cut(rest, to)
	if !found {
		return fmt.Errorf("site/%s does not hold %q before %q", file, from, to)
	}
	return s.edit(file, from+middle, "")
}

// commit commits and pushes what was edited, and shows it.
func (s *stage) commit(ctx context.Context, message string) error {
	if _, err := s.run(ctx, "git", "-C", "site", "add", "-A"); err != nil {
		return err
	}
	s.show.command(fmt.Sprintf("git commit -m %q && git push", message))
	if _, err := s.run(ctx, "git", "-C", "site", "commit", "-q", "-m", message); err != nil {
		return err
	}
	return s.push(ctx)
}

// git runs git in the clone, and shows how.
func (s *stage) git(ctx context.Context, args ...string) error {
	s.show.command("git " + strings.Join(args, " "))
	_, err := s.run(ctx, "git", append([]string{"-C", "site"}, args...)...)
	return err
}

// revert takes the last commit back.
func (s *stage) revert(ctx context.Context) error {
	s.show.command("git revert HEAD && git push")
	if _, err := s.run(ctx, "git", "-C", "site", "revert", "--no-edit", "HEAD"); err != nil {
		return err
	}
	return s.push(ctx)
}

// restore puts files back as they were before the last commit.
func (s *stage) restore(ctx context.Context, files ...string) error {
	s.show.command("git checkout HEAD~ -- " + strings.Join(files, " "))
	if _, err := s.run(ctx, "git", append([]string{"-C", "site", "checkout", "-q", "HEAD~", "--"}, files...)...); err != nil {
		return err
	}
	return s.commit(ctx, "put the nodes back")
}

func (s *stage) push(ctx context.Context) error {
	if _, err := s.run(ctx, "git", "-C", "site", "push", "-q"); err != nil {
		return err
	}
	if err := s.readHead(ctx); err != nil {
		return err
	}
	diff, err := s.run(ctx, "git", "-C", "site", "show", "--format=", "--unified=0", "--no-color")
	s.show.diff(diff)
	return err
}

func (s *stage) readHead(ctx context.Context) error {
	out, err := s.run(ctx, "git", "-C", "site", "rev-parse", "HEAD")
	s.head = strings.TrimSpace(out)
	return err
}
