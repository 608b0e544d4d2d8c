package config

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// hasOtherFile reports whether a unit has a file outside /etc/systemd/system.
func (w *work) hasOtherFile(n string) bool {
	return slices.ContainsFunc(unitFolders, func(folder string) bool {
		return folder != unitFolder && (w.tree.Exists(folder+"/"+n) || w.tree.Exists(folder+"/"+template(n)))
	})
}

// fileOfUnit applies the unit's file in /etc/systemd/system.
func (w *work) fileOfUnit(g *unitGoal, s seenUnits) (changed bool, err error) {
	at := unitFolder + "/" + g.name
	was, err := w.tree.Look(at)
	if err != nil {
		return false, err
	}
	var before unitBefore
	w.items.Load(g.key, &before, nil)
	isMask := was.Kind == tree.Link && was.Target == "/dev/null"
	switch {
	case g.content != nil:
		p := place{Kind: tree.File, Content: []byte(*g.content), Mode: 0o644}
		return w.placeUnit(g, at, p, s)
	case g.mask && isMask:
		return false, w.tree.Sweep(at)
	case g.mask:
		return true, w.tree.PutLink(at, "/dev/null", 0, 0)
	case !g.back && !(g.unmask && isMask):
		return false, nil
	case !g.back, g.unmask && before.File.Target == "/dev/null":
		return w.placeUnit(g, at, place{}, s)
	}
	if changed, err = w.placeUnit(g, at, before.File, s); err == nil && before.File.Kind == tree.Nothing {
		err = w.tree.RemoveFolders(before.Folders)
	}
	return changed, err
}

// placeUnit puts a unit file in place. If the unit runs, placeUnit first records that it must restart.
func (w *work) placeUnit(g *unitGoal, at string, p place, s seenUnits) (changed bool, err error) {
	if !w.differs(at, p) {
		return false, w.putBack(at, p)
	}
	if s.states[g.name].active == "running" && g.state != "stopped" {
		var made unitMade
		w.items.Load(g.key, nil, &made)
		made.Restart, made.Boot = true, w.bootID()
		if err := w.items.Note(g.key, made); err != nil {
			return false, err
		}
	}
	return true, w.putBack(at, p)
}

// differs reports whether the content at a path differs from a place.
func (w *work) differs(at string, p place) bool {
	e, err := w.tree.Look(at)
	if err != nil || e.Kind != p.Kind {
		return true
	}
	if e.Kind != tree.File {
		return e.Target != p.Target
	}
	if p.Secret {
		return true
	}
	digest, err := w.tree.Digest(w.ctx, at, item.MaxArtifact)
	return err != nil || digest != item.Digest(p.Content)
}
