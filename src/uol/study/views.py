"""The study, a session and a trial as the page shows them, in the participant's language."""

from __future__ import annotations

from uol.study.schemas import ScaleView, SessionView, Stage, StudyView, TrialView
from uol.study.sessions import Session, Sessions
from uol.study.settings import StudySettings, Text
from uol.study.trials import question

_AHEAD = 3  # trials whose images are loaded before they are shown
_PARAMETERS = ("STUDY_ID", "SESSION_ID")  # that Prolific adds to the id of a participant


def parameters(settings: StudySettings) -> list[str]:
    """The parameters of the address that are kept, apart from the answers."""
    return list(dict.fromkeys([settings.participant_parameter, *_PARAMETERS]))


def language_of(settings: StudySettings, wanted: str) -> str:
    """The language of the study that is nearest to the one that was asked for."""
    short = {language.split("-")[0].lower(): language for language in reversed(settings.languages)}
    exact = {language.lower(): language for language in settings.languages}
    return exact.get(wanted.lower()) or short.get(wanted.split("-")[0].lower()) or settings.languages[0]


def study_view(sessions: Sessions, wanted: str) -> StudyView:
    """What everybody may know about a study."""
    settings = sessions.study.settings
    language = language_of(settings, wanted)

    def say(text: Text | None) -> str | None:
        return None if text is None else settings.text(text, language)

    labels = {str(level): settings.text(text, language) for level, text in settings.scale.labels.items()}
    scale = ScaleView(low=settings.scale.low, high=settings.scale.high, labels=labels)
    return StudyView(
        study=sessions.name, title=settings.text(settings.title, language), kind=settings.kind, language=language,
        languages=list(settings.languages), question=settings.text(settings.question, language),
        consent=settings.text(settings.consent, language), instructions=settings.text(settings.instructions, language),
        scale=scale if settings.kind == "ratings" else None,
        similar=say(settings.labels.similar) if settings.similar else None, first=say(settings.labels.first),
        second=say(settings.labels.second), parameters=parameters(settings), resume=settings.resume,
        full=sessions.full(),
    )  # fmt: skip


def session_view(sessions: Sessions, session: Session) -> SessionView:
    """Where a participant is in a session."""
    settings, current, language = sessions.study.settings, session.current, session.language
    practice = sum(trial.kind == "practice" for trial in session.trials)
    done = max(0, session.done - practice)
    finished = session.state == "finished" or (session.state == "open" and current is None)
    closed = session.state not in ("open", "finished")
    stage: Stage = "finished" if finished else "closed" if closed else "trial"
    every = settings.break_every
    coming = [] if closed else session.trials[session.done + 1 : session.done + 1 + _AHEAD]
    shown = None
    if current is not None and stage == "trial":
        shown = TrialView(
            trial=current.trial, kind=settings.kind, practice=current.kind == "practice",
            question=question(settings, current, language), images=[sessions.key(name) for name in current.images],
        )  # fmt: skip
    return SessionView(
        participant=session.participant, stage=stage, language=language,
        done=done, total=len(session.trials) - practice,
        practice_done=min(session.done, practice), practice_total=practice,
        rest=shown is not None and every is not None and done > 0 and done % every == 0,
        trial=shown, ahead=list(dict.fromkeys(sessions.key(name) for trial in coming for name in trial.images)),
        thanks=settings.text(settings.thanks, language) if finished else None,
        code=session.code if finished else None, return_address=settings.return_address if finished else None,
    )  # fmt: skip
