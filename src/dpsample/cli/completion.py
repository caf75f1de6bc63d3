"""dpsample completion."""

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Example:
      eval "$(dpsample completion bash)"
    """
    from click.shell_completion import get_completion_class

    completions = get_completion_class(shell)
    assert completions is not None
    all_commands = context.find_root().command
    click.echo(completions(all_commands, {}, "dpsample", "_DPSAMPLE_COMPLETE").source())
