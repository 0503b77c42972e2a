// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package manpage

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Section is a part of a page that the command itself does not tell.
type Section struct {
	Title string // in capitals: EXIT STATUS
	// Text is paragraphs separated by empty lines; lines that begin with a space
	// stay as they are.
	Text string
}

// Write writes the page of root, section 1, with the given sections before SEE
// ALSO. seeAlso are pages as NAME(SECTION).
func Write(w io.Writer, root *cobra.Command, sections []Section, seeAlso ...string) error {
	p := &page{}
	name := root.Name()
	p.line(`.TH %s 1 "" %s "User Commands"`, quote(strings.ToUpper(name)), quote(name))
	p.line(".SH NAME")
	p.line(`%s \- %s`, escape(name), escape(lowerFirst(root.Short)))
	commands := leaves(root)
	p.line(".SH SYNOPSIS")
	for _, c := range commands {
		p.line(`\fB%s\fR %s`, escape(c.CommandPath()), escape(usage(c)))
		p.line(".br")
	}
	p.line(".SH DESCRIPTION")
	p.text(about(root))
	p.examples(root)
	p.flags(".SH OPTIONS OF EVERY COMMAND", root.PersistentFlags())
	p.line(".SH COMMANDS")
	for _, c := range commands {
		p.command(c)
	}
	for _, s := range sections {
		p.line(".SH %s", escape(s.Title))
		p.text(s.Text)
	}
	if len(seeAlso) > 0 {
		p.line(".SH SEE ALSO")
		p.line("%s", escape(strings.Join(seeAlso, ", ")))
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// Command returns the hidden subcommand "man", which writes the page of its
// root to standard output.
func Command(sections []Section, seeAlso ...string) *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the manual page",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Write(cmd.OutOrStdout(), cmd.Root(), sections, seeAlso...)
		},
	}
}

// leaves returns the commands that do something, in the order of help.
func leaves(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		switch {
		case !sub.IsAvailableCommand() || sub.Name() == "help":
		case sub.Name() == "completion" && sub.HasAvailableSubCommands(): // the library's own, in its own words
		case sub.HasAvailableSubCommands():
			all = append(all, leaves(sub)...)
		default:
			all = append(all, sub)
		}
	}
	return all
}

// usage returns the arguments of a command, without its name.
func usage(c *cobra.Command) string {
	_, args, _ := strings.Cut(c.Use, " ")
	if c.HasAvailableLocalFlags() && !strings.Contains(args, "[flags]") {
		args = strings.TrimSpace("[flags] " + args)
	}
	return args
}

func about(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// page is a page that is being written.
type page struct{ b strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// command writes one subcommand.
func (p *page) command(c *cobra.Command) {
	path := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
	p.line(`.SS %s`, quote(path+" "+usage(c)))
	p.text(about(c))
	p.flags("", c.LocalFlags())
	p.examples(c)
}

// flags writes a list of flags, if there are any but --help.
func (p *page) flags(title string, flags *pflag.FlagSet) {
	var list []*pflag.Flag
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" && f.Name != "help" && f.Name != "version" {
			list = append(list, f)
		}
	})
	if len(list) == 0 {
		return
	}
	if title != "" {
		p.line("%s", title)
	}
	for _, f := range list {
		value, text := pflag.UnquoteUsage(f)
		names := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			names = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + names
		}
		if value != "" {
			names += ` \fI` + escape(value) + `\fR`
		}
		if !slices.Contains([]string{"", "[]", "false", "0", "0s"}, f.DefValue) {
			text += " (default " + f.DefValue + ")"
		}
		p.line(".TP")
		p.line("%s", names)
		p.line("%s", escape(text))
	}
}

func (p *page) examples(c *cobra.Command) {
	if c.Example == "" {
		return
	}
	p.line(".PP")
	p.line("Examples:")
	p.text(c.Example)
}

// text writes paragraphs; lines that begin with a space stay as they are.
func (p *page) text(s string) {
	literal, open := false, false
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		indented := strings.HasPrefix(line, " ")
		switch {
		case line == "":
			open = false
			continue
		case indented && !literal:
			p.line(".PP")
			p.line(".nf")
		case !indented && literal:
			p.line(".fi")
			p.line(".PP")
		case !open && !literal:
			p.line(".PP")
		}
		literal, open = indented, true
		p.line("%s", escape(line))
	}
	if literal {
		p.line(".fi")
	}
}

// escape makes text harmless to the formatter.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// quote makes text one argument of a macro.
func quote(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }

// lowerFirst begins a phrase in the manual's way.
func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
