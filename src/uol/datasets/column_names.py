"""Usual names of columns, in the languages that people write tables in; case, accents, spaces, - and _ do not matter.

Each entry is one string of names separated by "; ", English first. The order is that of preference.
"""

from __future__ import annotations

import re
import unicodedata


def _names(*languages: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in languages for name in names.split("; ")))


IMAGE = _names(
    "image; image_name; filename; file; stimulus; stimulus_id; name; path; image_id; image_file; img; picture; photo; "
    "photograph; stimuli; face; face_id",
    "Bild; Bildname; Bilddatei; Datei; Dateiname; Foto; Gesicht; Reiz",
    "fichier; nom de fichier; nom du fichier; nom; visage",
    "imagen; archivo; nombre; nombre de archivo; rostro; cara; estímulo",
    "immagine; nome; nome file; volto; viso; stimolo",
    "imagem; arquivo; ficheiro; nome do arquivo; fotografia",
    "afbeelding; bestand; bestandsnaam; plaatje; gezicht",
    "obraz; zdjęcie; plik; billede; bilde; resim; görsel; dosya",
    "изображение; картинка; фото; фотография; файл; имя файла; стимул; лицо",
    "图片; 图像; 照片; 文件; 文件名; 图片名; 图片名称; 人脸; 刺激; 圖片; 圖像; 檔名; 檔案",
    "画像; 画像名; 写真; ファイル; ファイル名; 刺激; 顔",
    "이미지; 사진; 파일; 파일명; 자극",
    "id",
)

_PEOPLE = _names(
    "rater; rater_id; participant; participant_id; subject; subject_id; user; user_id; judge; observer; respondent; "
    "annotator; worker; worker_id; evaluator",
    "Rater_in; Beurteiler; Teilnehmer; Teilnehmer_in; Teilnehmerin; Versuchsperson; Vpn; Vp; Vp_code; Proband",
    "évaluateur; juge; sujet; participant·e; répondant; participante",
    "evaluador; participante; sujeto; juez; encuestado",
    "valutatore; partecipante; soggetto; giudice",
    "avaliador; participante; sujeito; juiz",
    "beoordelaar; deelnemer; proefpersoon; ppn",
    "oceniający; uczestnik; deltager; deltagare; katılımcı",
    "участник; оценщик; испытуемый; респондент; эксперт",
    "评分者; 评价者; 被试; 被试编号; 参与者; 用户; 評分者; 受試者",
    "評価者; 評定者; 参加者; 被験者; 回答者",
    "평가자; 참가자; 피험자",
)

ROLES: dict[str, tuple[str, ...]] = {
    "rater": _PEOPLE,
    "rating": _names(
        "rating; score; value; response; judgement; judgment; evaluation; attractiveness; beauty",
        "Bewertung; Urteil; Wertung; Note; Wert; Antwort; Punkte; Attraktivität",
        "évaluation; notation; valeur; réponse; jugement; cote; score",
        "calificación; puntuación; valoración; valor; respuesta; puntaje; nota",
        "valutazione; punteggio; voto; giudizio; valore; risposta",
        "avaliação; pontuação; classificação; resposta",
        "beoordeling; oordeel; waardering; cijfer; waarde",
        "ocena; vurdering; betyg; puan",
        "оценка; балл; рейтинг; ответ; значение",
        "评分; 分数; 打分; 得分; 评价; 評分; 分數",
        "評価; 評定; 得点; 点数; スコア; 評点",
        "평가; 점수; 평점",
    ),
    "mean": _names(
        "mean; mean_score; mean_rating; average; average_score; average_rating; avg; score; rating",
        "Mittelwert; Mittel; Durchschnitt; MW",
        "moyenne; note moyenne; score moyen",
        "media; promedio; puntuación media",
        "media; punteggio medio; média; pontuação média",
        "gemiddelde; gemiddelde score; średnia; medel; gjennomsnitt; ortalama",
        "среднее; средняя оценка; средний балл",
        "平均; 平均分; 均值; 平均值; 平均評分; 平均値; 平均評価; 平均点; 평균",
    ),
    "variance": _names("variance; var", "Varianz", "varianza; variância; variantie", "дисперсия", "方差; 分散; 변이"),
    "sd": _names(
        "sd; std; stdev; standard_deviation; std_dev",
        "Standardabweichung; SA; StdAbw",
        "écart-type; écart type; ET",
        "desviación estándar; desviación típica; DE; DT",
        "deviazione standard; DS; desvio padrão; DP",
        "standaarddeviatie; standaardafwijking",
        "стандартное отклонение; СКО",
        "标准差; 標準差; 標準偏差; 표준편차",
    ),
    "count": _names(
        "count; n; n_ratings; n_raters; ratings_count; number_of_ratings; votes",
        "Anzahl; nombre; effectif; número; numero; aantal; количество; 人数; 数量; 件数",
    ),
    "split": ("split", "fold"),
}

GROUPS = _names(
    "gender; sex; ethnicity; race; age; age_group; nationality; country; group; category; condition; expression; "
    "emotion; pose; person; identity; source",
    "Geschlecht; Ethnie; Ethnizität; Alter; Altersgruppe; Nationalität; Gruppe; Kategorie; Bedingung",
    "sexe; genre; ethnie; âge; groupe; catégorie; nationalité",
    "sexo; género; etnia; raza; edad; grupo; categoría",
    "sesso; genere; razza; età; gruppo; gênero; raça; idade",
    "geslacht; etniciteit; leeftijd; groep; płeć; kön; køn; cinsiyet",
    "пол; возраст; раса; этничность; группа; категория",
    "性别; 年龄; 种族; 民族; 性別; 年齡; 年齢; 人種; 国籍; 성별; 나이; 인종",
)

NEITHER = _names(
    "id; index; row; number; no; nr; trial; order; width; height; rt; reaction_time; response_time; duration; "
    "timestamp; time; date; session; block; trial_index; presentation_order",
    "Nummer; Zeile; Durchgang; Reihenfolge; Reaktionszeit; Datum; Uhrzeit; Zeit; Block; Lfd_Nr",
    "numéro; essai; ordre; temps de réaction; fecha; orden; ensayo; tiempo de reacción; data; prova; ordem",
    "номер; 序号; 编号; 番号; 번호",
)
"""Columns of numbers that are neither ratings nor groups."""

FIRST = _names(
    "image_a; a; image_1; first; left; first_image; image_left; stimulus_a; file_a; left_image; image1; img1; photo_a; "
    "Bild_A; Bild_1; links; image_gauche; gauche; imagen_a; izquierda; immagine_a; sinistra; imagem_a; esquerda; "
    "afbeelding_a; изображение_1; левое; 图片1; 图片a; 左; 左图; 画像1; 画像a; 이미지1"
)
SECOND = _names(
    "image_b; b; image_2; second; right; second_image; image_right; stimulus_b; file_b; right_image; image2; img2; "
    "photo_b; Bild_B; Bild_2; rechts; image_droite; droite; imagen_b; derecha; immagine_b; destra; imagem_b; direita; "
    "afbeelding_b; изображение_2; правое; 图片2; 图片b; 右; 右图; 画像2; 画像b; 이미지2"
)
WINNER = _names(
    "winner; chosen; choice; preferred; vote; outcome; result; response; selected; winner_image; Gewinner; Sieger; "
    "gewählt; bevorzugt; Wahl; gagnant; choix; préféré; ganador; elegida; elegido; elección; vincitore; scelta; "
    "vencedor; escolha; winnaar; keuze; победитель; выбор; 胜者; 赢家; 选择; 勝者; 選択; 승자; 선택"
)
LOSER = _names(
    "loser; rejected; not_chosen; unchosen; loser_image; Verlierer; nicht_gewählt; perdant; perdedor; perdente; "
    "verliezer; проигравший; 败者; 输家; 敗者; 패자"
)
VOTER = ("voter", *_PEOPLE, "votant", "votante", "Wähler", "kiezer", "投票者", "избиратель")

LEFT_WON = ("a", "left", "1", "first", "links", "gauche", "izquierda", "sinistra", "esquerda", "левое", "左")
RIGHT_WON = ("b", "right", "2", "second", "rechts", "droite", "derecha", "destra", "direita", "правое", "右")
TIED = _names(
    "tie; draw; equal; same; similar; 0; unentschieden; gleich; égalité; empate; pareggio; gelijk; ничья; равны; 平局; "
    "同じ; 引き分け"
)
"""What a column of winners holds other than the name of an image, in lower case."""


def plain_name(name: str) -> str:
    """A name without case, accents, spaces, hyphens and underscores."""
    text = unicodedata.normalize("NFKD", name).casefold()
    return re.sub(r"[\s_\-]+", "", "".join(mark for mark in text if not unicodedata.combining(mark)))


HEADINGS = frozenset(
    plain_name(name)
    for names in (IMAGE, *ROLES.values(), FIRST, SECOND, WINNER, LOSER, VOTER, GROUPS)
    for name in names
)
"""All usual names, plain: a row that has some of them is a row of headings."""
