package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
)

func (g *grading) tryExpand(ctx context.Context) (driver.Ability, error) {
	features := at[object](g.root, "ProtocolFeaturesSupported", "ExpandQuery")
	sign := "."
	switch {
	case at[bool](features, "NoLinks"):
	case at[bool](features, "ExpandAll"):
		sign = "*"
	default:
		return driver.Ability{}, lacks("the service root says that there is none")
	}
	path := cmp.Or(link(g.system.object, "Memory"), link(g.root, "Chassis"))
	if path == "" {
		return driver.Ability{}, lacks("there is no collection to try it on")
	}
	o, err := g.client.get(ctx, path+"?$expand="+sign)
	if err != nil {
		return driver.Ability{}, err
	}
	for _, m := range at[[]object](o, "Members") {
		if len(m) < 2 {
			return driver.Ability{}, lacks("the service root says that there is, but it sends references anyway")
		}
	}
	if levels := at[int](features, "MaxLevels"); levels > 0 {
		return works("to %d levels", levels), nil
	}
	return works("without a number of levels"), nil
}

// tryETags asks for what is known already.
func (g *grading) tryETags(ctx context.Context) (driver.Ability, error) {
	s, err := g.read(ctx)
	if err != nil {
		return driver.Ability{}, err
	}
	tags := g.tap.tags
	text := fmt.Sprintf("strong on %d, weak on %d, none on %d answers", tags["strong"], tags["weak"], tags["none"])
	if tags["strong"]+tags["weak"] == 0 {
		return driver.Ability{}, lacks("no answer has an ETag, so a write cannot detect a change made in between")
	}
	tag := at[string](s.object, etag)
	if tag == "" {
		return partly("%s; the system has none", text), nil
	}
	resp, err := g.client.do(ctx, func(api *gofish.APIClient) (*http.Response, error) {
		return api.GetWithHeaders(g.path, map[string]string{"If-None-Match": tag})
	})
	switch {
	case errors.Is(err, schemas.ErrNotModified), hasStatus(err, http.StatusNotModified):
		return works("%s; what has not changed is not sent again", text), nil
	case err != nil:
		return partly("%s; a conditional read is refused: %s", text, printable(err.Error())), nil
	}
	return partly("%s; a conditional read of the system gets all of it", text), resp.Body.Close()
}
