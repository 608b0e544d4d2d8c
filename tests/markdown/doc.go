// Package markdown shows comments as GitHub does, for tests: as the HTML that
// GitHub makes of them, and in a browser.
//
// GitHub renders GitHub Flavored Markdown with line breaks kept and HTML let
// through, then takes all elements and attributes out that are not on a list
// (github.com/github/markup, "GitHub Markup"), then makes links and pictures of
// what it finds in the text that is left: mentions, issues, emoji
// (docs.github.com, "Basic writing and formatting syntax").
package markdown
