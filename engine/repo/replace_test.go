package repo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
)

const aliveRef = "refs/slipway/alive/berlin"

func replace(t *testing.T, r repo.Remote, text string) error {
	t.Helper()
	tree := repo.NewTree()
	if err := tree.Set("alive.json", []byte(text)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Replace(t.Context(), aliveRef, tree, message(text))
	return err
}

// A reference that is no branch is replaced and read over each transport, also where the server lets nobody rewrite a branch.
func TestReplaceOverTransports(t *testing.T) {
	for name, serve := range transports {
		t.Run(name, func(t *testing.T) {
			g := repotest.Init(t)
			g.Write("site.cue", "package site\n")
			g.Commit("first")
			g.Git("config", "http.receivepack", "true")
			g.Git("config", "receive.denyNonFastForwards", "true")
			g.Git("config", "receive.denyDeletes", "true")
			g.Git("config", "receive.denyCurrentBranch", "refuse")
			g.Git("config", "receive.fsckObjects", "true")
			r := serve(t, g)
			for _, text := range []string{"1", "2", "3"} {
				if err := replace(t, r, text); err != nil {
					t.Fatal(err)
				}
				refs, err := r.References(t.Context(), "refs/slipway/")
				if err != nil || len(refs) != 1 || refs[aliveRef] != g.Git("rev-parse", aliveRef) {
					t.Fatalf("%v, %v", refs, err)
				}
				store := openStore(t, "")
				head, err := r.FetchOne(t.Context(), store, aliveRef)
				if err != nil || head != refs[aliveRef] {
					t.Fatalf("%s, %v", head, err)
				}
			}
			if got := g.Git("show", aliveRef+":alive.json"); got != "3" {
				t.Errorf("it has %q", got)
			}
			if got := g.Git("rev-list", "--count", aliveRef); got != "1" {
				t.Errorf("%s commits", got)
			}
		})
	}
}

// A server that refuses the reference is named with its reason and what to do, and keeps what it had.
func TestReplaceIsRefused(t *testing.T) {
	for name, refuse := range map[string]func(g *repotest.Repo){
		"hidden references": func(g *repotest.Repo) { g.Git("config", "receive.hideRefs", "refs/slipway") },
		"update hook": func(g *repotest.Repo) {
			hook := filepath.Join(g.Dir, ".git/hooks/update")
			if err := os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"branch of that name": func(g *repotest.Repo) { g.Git("update-ref", aliveRef+"/x", "HEAD") },
	} {
		t.Run(name, func(t *testing.T) {
			g := repotest.Init(t)
			g.Write("site.cue", "package site\n")
			g.Commit("first")
			refuse(g)
			err := replace(t, open(t, g.Dir), "1")
			if err == nil || !strings.Contains(err.Error(), "the server refused to change the reference "+aliveRef) {
				t.Errorf("got %v", err)
			}
			t.Log(err)
		})
	}
}
