package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Survey implements driver.Surveyor. It brings a missing helper to the machine, and changes nothing else there.
func (m *machine) Survey(ctx context.Context, n *site.Node) (map[site.Facet]item.Found, error) {
	looking, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	request := wire.Request{Op: wire.OpSurvey, Node: n.Name}
	for _, f := range byHelper {
		request.Survey = append(request.Survey, string(f))
	}
	conn, err := connect(looking, m.client)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	request = m.named(request, conn.entry)
	x := exchange{
		script: markerScript + helperScript(m.helpers.known()), request: &request,
		accept: func(report []byte) error { return m.isNode(n, report) },
	}
	_, a, err := conn.run(looking, x)
	if err == nil && a.needsHelper() {
		if err = m.push(looking, conn, a); err == nil {
			x.script = markerScript + helperScript(m.helpers.known())
			_, a, err = conn.run(looking, x)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := m.trouble(a); err != nil {
		return nil, err
	}
	m.learn(a.result)
	var found map[string]item.Found
	if err := json.Unmarshal(a.result.Found, &found); err != nil {
		return nil, fmt.Errorf("the helper on %s sent something that is not a survey: %w", m.client.Address(), err)
	}
	told := map[site.Facet]item.Found{}
	for _, f := range byHelper {
		told[f] = printable(found[string(f)])
	}
	return told, nil
}

// printable drops the items whose fields have unprintable characters, because a terminal or a reader could misread
// them.
func printable(found item.Found) (told item.Found) {
	for _, i := range found.Items {
		isPlain := site.Printable(i.Key) == i.Key
		for name, v := range i.Fields {
			isPlain = isPlain && site.Printable(name) == name && site.Printable(v) == v
		}
		if isPlain {
			told.Items = append(told.Items, i)
		} else {
			told.Leave(site.Printable(i.Key), "it has characters that cannot be printed")
		}
	}
	for _, l := range found.Left {
		told.Leave(site.Printable(l.What), "%s", site.Printable(l.Why))
	}
	return told
}
