package commit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// These are our files on the branch. Everything else is left alone.
const (
	pageFile    = "README.md"
	summaryFile = "status.json"
	nodesFolder = "nodes"
)

// written is a node as last put into the tree, with its path.
type written struct {
	status site.NodeStatus
	file   string
}

// stage puts a report into the tree. It only renders nodes that differ from what was staged last.
func (r *Reporter) stage(rep *site.Report) error {
	summary, err := asJSON(summaryOf(rep))
	if err != nil {
		return err
	}
	if err := r.tree.Set(pageFile, page(rep)); err != nil {
		return err
	}
	if err := r.tree.Set(summaryFile, summary); err != nil {
		return err
	}
	if err := r.stageIncidents(&rep.Status); err != nil {
		return err
	}
	if err := r.stageRevoked(rep.RevocationLists); err != nil {
		return err
	}
	if r.nodes == nil {
		r.nodes, r.tidy = make(map[string]*written, len(rep.Status.Nodes)), false
	}
	for _, n := range rep.Status.Nodes {
		n = lasting(n)
		if w := r.nodes[n.Name]; w != nil && reflect.DeepEqual(&w.status, &n) {
			continue
		}
		if err := r.stageNode(n); err != nil {
			return fmt.Errorf("status of %s: %w", n.Name, err)
		}
		if err := r.stageErased(n); err != nil {
			return fmt.Errorf("erase report of %s: %w", n.Name, err)
		}
	}
	if rep.Status.Applied.ID == "" || r.tidy && len(r.nodes) == len(rep.Status.Nodes) {
		return nil // without a design it is unknown which nodes were removed
	}
	r.tidy = true
	return r.removeOthers(rep.Status.Nodes)
}

func (r *Reporter) stageNode(n site.NodeStatus) error {
	n.Notes = slices.Clone(n.Notes)
	w := &written{n, nodeFile(n.Name)}
	r.nodes[n.Name] = w
	data, err := nodeJSON(n)
	if err != nil {
		return err
	}
	return r.tree.Set(w.file, data)
}

// lasting is a node's status without the parts that are new at each look but are not news.
func lasting(n site.NodeStatus) site.NodeStatus {
	n.Seen, n.Retry = time.Time{}, time.Time{}
	n.Detail, n.Cause, n.Release, n.Stale = "", "", "", nil
	return n
}

func nodeJSON(n site.NodeStatus) ([]byte, error) {
	n = lasting(n)
	n.Since = n.Since.UTC()
	return asJSON(n)
}

// removeOthers removes the files of nodes that no longer exist.
func (r *Reporter) removeOthers(nodes []site.NodeStatus) error {
	wanted := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		wanted[r.nodes[n.Name].file] = true
	}
	maps.DeleteFunc(r.nodes, func(_ string, w *written) bool { return !wanted[w.file] })
	there, err := r.tree.Walk(nodesFolder)
	if err != nil {
		return err
	}
	for _, name := range there {
		if wanted[name] {
			continue
		}
		if err := r.tree.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func asJSON(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// nodeFile is the path of a node's status, in two levels of 16 folders by a digest of the name. Every commit
// rewrites the folders above a change completely, so they must be small. With 10,000 nodes, 16 entries per level
// and about 40 files per folder are near the minimum cost of a commit. Two levels of 256 cost three times as much.
func nodeFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	digest := hex.EncodeToString(sum[:])
	if !plainName.MatchString(name) {
		name = "x-" + digest[:32] // the name is inside the file
	}
	return nodesFolder + "/" + digest[:1] + "/" + digest[1:2] + "/" + name + ".json"
}

// summaryKind marks a status.json as ours, with the version of its format.
const summaryKind = "slipway/status/v1"

// summary is status.json: the site without its nodes.
type summary struct {
	Kind        string             `json:"kind"`
	Site        string             `json:"site"`
	Verdict     string             `json:"verdict"`
	Nodes       int                `json:"nodes"`
	Counts      map[site.State]int `json:"counts"`
	Applied     site.Revision      `json:"applied,omitzero"`
	Attempted   site.Revision      `json:"attempted,omitzero"`
	Problems    []site.Problem     `json:"problems,omitempty"`
	Findings    []site.Finding     `json:"findings,omitempty"`
	ObserveOnly string             `json:"observeOnly,omitempty"`
	Paused      *site.Hold         `json:"paused,omitempty"`
	// Waiting are the first of Losses machines whose data is lost after approval.
	Waiting site.Losses `json:"waiting,omitempty"`
	Losses  int         `json:"losses,omitempty"`
	Approve string      `json:"approve,omitempty"`
	// Ledger are the approvals of the last days, oldest first.
	Ledger  []site.LedgerEntry `json:"ledger,omitempty"`
	Rollout *rollout           `json:"rollout,omitempty"`
	Swept   *site.Swept        `json:"swept,omitempty"`
}

// rollout is the current rollout, or the last one.
type rollout struct {
	Revision site.Revision     `json:"revision"`
	Since    time.Time         `json:"since"`
	Nodes    int               `json:"nodes"`
	Done     int               `json:"done"`
	Failed   map[string]string `json:"failed,omitempty"`
	Halted   string            `json:"halted,omitempty"`
	Ended    time.Time         `json:"ended,omitzero"`
	Queued   *site.Revision    `json:"queued,omitempty"`
}

func summaryOf(rep *site.Report) summary {
	s := &rep.Status
	return summary{
		Kind: summaryKind, Site: s.Site, Verdict: verdict(s), Nodes: len(s.Nodes), Counts: s.Counts(),
		Applied: s.Applied, Attempted: s.Attempted, Problems: s.Problems, Findings: rep.Findings[:min(len(rep.Findings), mostFindings)],
		ObserveOnly: s.ObserveOnly, Paused: s.Paused, Waiting: s.Waiting[:min(len(s.Waiting), mostWaiting)], Losses: len(s.Waiting), Approve: s.Approve, Ledger: latest(s.Ledger),
		Rollout: rolloutOf(s.Rollout), Swept: sweptOf(s.Swept),
	}
}

// rolloutOf is a rollout with its nodes counted.
func rolloutOf(r *site.RolloutStatus) *rollout {
	if r == nil {
		return nil
	}
	return &rollout{Revision: r.Revision, Since: r.Since, Nodes: len(r.Nodes), Done: r.Done, Failed: r.Failed, Halted: r.Halted, Ended: r.Ended, Queued: r.Queued}
}

// sweptOf is a sweep without its time, which is not news, and with at most mostMet machines.
func sweptOf(s *site.Swept) *site.Swept {
	if s == nil {
		return nil
	}
	return &site.Swept{Addresses: s.Addresses, Answered: s.Answered, Known: s.Known, Met: s.Met[:min(len(s.Met), mostMet)]}
}

// isSummaryOf reports whether a status.json is ours, for a site.
func isSummaryOf(data []byte, name string) bool {
	var s struct{ Kind, Site string }
	return json.Unmarshal(data, &s) == nil && s.Site == name && strings.HasPrefix(s.Kind, "slipway/status/")
}

// verdict is the site in one line: "11/12 in-sync, 1 progressing".
func verdict(s *site.Status) string {
	var parts []string
	for _, c := range s.Verdict() {
		parts = append(parts, c.Text)
	}
	switch n := len(s.Problems); {
	case n == 1:
		parts = append(parts, "1 problem")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d problems", n))
	}
	return strings.Join(parts, ", ") + s.Caveat()
}

// trailerSite marks a commit as ours.
const trailerSite = "Slipway-Site: "

// message is the commit's message. Trailers hold the data for tools (git-interpret-trailers(1)).
func message(rep *site.Report) string {
	s := &rep.Status
	text := "status: " + verdict(s) + "\n\n" + trailerSite + s.Site + "\n"
	if s.Applied.ID != "" {
		text += "Slipway-Applied: " + s.Applied.ID + "\n"
	}
	if s.Attempted.ID != "" {
		text += "Slipway-Attempted: " + s.Attempted.ID + "\n"
	}
	return text
}
